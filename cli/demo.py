"""``demo``: the main job on one checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..files import write_report
from .console import clean_errors, conclude, parse_sizes, print_now, print_table, refuse_ignored
from .options import BatchSizesOption, JsonOption, ModeOption, Size

if TYPE_CHECKING:
    from ..verification.demo import DemoReport


def demo(
    context: typer.Context,
    directory: Annotated[Path, typer.Option("--dir", help="Where the tiny checkpoint is, or is made.")] = Path("demo"),
    batch_sizes: BatchSizesOption = "1,2,4,8",
    size: Annotated[Size, typer.Option(help="Size of the checkpoint if one has to be made.")] = Size.tiny,
    mode: ModeOption = None,
    json: JsonOption = None,
) -> None:
    """The main job: reference, eager and compiled decode of three prompts at every batch size, compared.

    Exits with 1 if a choice differs from the reference's by more than chance.
    """
    with clean_errors():
        from ..model.checkpoint.tiny import size_of
        from ..verification.demo import run_demo
        from .demo_tables import demo_tables

        sizes = parse_sizes(batch_sizes)
        if (directory / "config.json").exists() and size_of(directory) != size.value:
            refuse_ignored(context, ("size",), f"{directory} has a checkpoint of another size; name another --dir")
        report = run_demo(directory, sizes, size.value, mode and mode.value, print_now)
        for table in demo_tables(report):
            print_table(table)
        write_report(json, report.to_json())
    conclude(
        report.agrees,
        _describe(report),
        f"deepinfer-neuron compile {directory} --store programs"
        if report.agrees
        else f"deepinfer-neuron verify {directory} finds the first operator or region that differs",
    )


def _describe(report: DemoReport) -> str:
    """Why some choices that differ are as good as equal ones, or that they are not."""
    misses, margin = report.misses, f"top-two margin below {report.noise_margin:.2g}"
    equal = f"{report.choices - len(misses)} of {report.choices} choices equal the reference"
    outside = sum(one > report.noise_margin for one in misses)
    if not misses:
        return equal
    if outside:
        return f"{equal}; {outside} of the {len(misses)} others lie outside its noise ({margin})"
    return f"{equal}; the {len(misses)} others lie within its noise ({margin})"
