"""``verify``: levels 1 to 3 on a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ..files import write_report
from .console import clean_errors, conclude, parse_sizes, print_now, print_table, refuse_ignored
from .options import BatchSizesOption, DirectoryArgument, JsonOption, NumericsMode

if TYPE_CHECKING:
    from ..verification.run import VerifyReport


def verify(
    context: typer.Context,
    directory: DirectoryArgument,
    batch_sizes: BatchSizesOption = "1,2,4,8",
    numerics: Annotated[NumericsMode, typer.Option(help="exact: eager's bits are expected.")] = NumericsMode.exact,
    levels: Annotated[
        list[int], typer.Option("--level", min=1, max=3, help="1: passes, 2: operators, 3: regions; all if omitted.")
    ] = [1, 2, 3],  # noqa: B006
    json: JsonOption = None,
) -> None:
    """Every pass in eager, every operator and region compiled against eager; exits with 1 if what is exact differs."""
    if set(levels) == {1}:
        refuse_ignored(context, ("numerics",), "level 1 compares passes in eager PyTorch")
    with clean_errors():
        from ..verification.run import run_verify
        from .verify_tables import verify_tables

        report = run_verify(directory, parse_sizes(batch_sizes), numerics.value, print_now, levels)
        for table in verify_tables(report):
            print_table(table)
        write_report(json, report)
    sizes = ",".join(str(batch.batch_size) for batch in report.batches)
    bisect = f"deepinfer-neuron bisect --accuracy --model {directory} --batch-size {report.batches[-1].batch_size}"
    conclude(
        report.agrees,
        f"batch sizes {sizes}: {_describe(report)}",
        f"deepinfer-neuron compile {directory}" if report.agrees else bisect,
    )


def _describe(report: VerifyReport) -> str:
    passes = [one for batch in report.batches for one in batch.passes]
    operators = [one for batch in report.batches for one in batch.operators]
    regions = [one for batch in report.batches for one in batch.regions]
    counts = (
        ("passes change no bit", len(passes), sum(not one.mismatched for one in passes)),
        ("operators stay within the table", len(operators), sum(not one.unexplained for one in operators)),
        ("regions agree with eager", len(regions), sum(one.agrees for one in regions)),
    )
    return ", ".join(f"{good} of {total} {what}" for what, total, good in counts if total)
