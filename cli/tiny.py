"""``tiny``: small checkpoints with random weights in the layout of the release."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..files import write_report
from ..reporting import Table
from .console import clean_errors, conclude, print_table, progress_bar
from .options import DirectoryArgument, JsonOption, Size

tiny = typer.Typer(no_args_is_help=True, help="Small checkpoints with random weights in the layout of the release.")


@tiny.command("make")
def tiny_make(
    directory: Annotated[Path, typer.Argument(help="A new or empty directory.")],
    size: Annotated[Size, typer.Option(help="tiny: 0.8 GB, real tokenizer. nano: 3 MB, no text.")] = Size.tiny,
    seed: Annotated[int, typer.Option(help="Equal seeds give equal bytes.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a checkpoint made before.")] = False,
    json: JsonOption = None,
) -> None:
    """Make a checkpoint with random weights."""
    with clean_errors():
        from ..model.checkpoint.tiny import make_checkpoint

        with progress_bar("writing tensors") as progress:
            make_checkpoint(directory, size.value, seed, overwrite, progress)
        write_report(json, {"directory": str(directory), "size": size.value, "seed": seed})
    conclude(
        True, f"a {size.value} checkpoint of seed {seed} is in {directory}", f"deepinfer-neuron demo --dir {directory}"
    )


@tiny.command("check")
def tiny_check(directory: DirectoryArgument, json: JsonOption = None) -> None:
    """Check names, shapes, dtypes, engram constants and every value of a checkpoint."""
    with clean_errors():
        from ..model.checkpoint.check import check_checkpoint

        with progress_bar("reading tensors") as progress:
            summary = check_checkpoint(directory, progress)
        rows = [(entry.dtype, entry.tensors, entry.bytes) for entry in summary.dtypes]
        rows.append(("all", summary.tensors, summary.bytes))
        title = f"{directory}: {len(summary.shards)} shards, good"
        print_table(Table(title, ("dtype", "tensors", "bytes"), tuple(rows)))
        write_report(json, summary)
    conclude(True, f"all {summary.tensors} tensors are as they should be", f"deepinfer-neuron golden {directory}")
