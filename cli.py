"""The command line: a table of commands, each of which delegates to the module that does the work.

Modules are imported inside the commands, so that ``--help`` answers at once.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from .console import clean_errors, print_table, progress_bar, write_report

main = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
tiny = typer.Typer(no_args_is_help=True, help="Small checkpoints with random weights in the layout of the release.")
main.add_typer(tiny, name="tiny")

JsonOption = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Also write the result as JSON.")]


@main.callback(help="Compile and replay the decode step of a language model for AWS Trainium.")
def _root() -> None:
    pass


class Size(StrEnum):
    """Sizes of a made-up checkpoint."""

    tiny = "tiny"
    nano = "nano"


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
        from .model.checkpoint.tiny import make_checkpoint

        with progress_bar("writing tensors") as progress:
            make_checkpoint(directory, size.value, seed, overwrite, progress)
        print(f"{directory}: a {size.value} checkpoint, seed {seed}")
        write_report(json, {"directory": str(directory), "size": size.value, "seed": seed})


@tiny.command("check")
def tiny_check(
    directory: Annotated[Path, typer.Argument(help="A checkpoint directory.")], json: JsonOption = None
) -> None:
    """Check names, shapes, dtypes, engram constants and every value of a checkpoint."""
    with clean_errors():
        from .model.checkpoint.check import check_checkpoint

        with progress_bar("reading tensors") as progress:
            summary = check_checkpoint(directory, progress)
        rows: list[tuple[object, ...]] = [(entry.dtype, entry.tensors, entry.bytes) for entry in summary.dtypes]
        rows.append(("all", summary.tensors, summary.bytes))
        print_table(f"{directory}: {len(summary.shards)} shards, good", ("dtype", "tensors", "bytes"), rows)
        write_report(json, summary)
