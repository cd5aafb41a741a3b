"""``run``: the golden prompts through the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..files import write_report
from .console import ExitCode, clean_errors, conclude, print_now, print_table, print_verdict, refuse_ignored
from .golden import describe_comparison
from .options import DirectoryArgument, EngineMode, JsonOption, NumericsMode, TargetOption


def run(
    context: typer.Context,
    directory: DirectoryArgument,
    mode: Annotated[
        EngineMode | None,
        typer.Option(help="Default: eager if DEEPINFER_ENFORCE_EAGER, else DEEPINFER_NEURON_GRAPH_MODE, else whole."),
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Prompts that are decoded together.")] = 1,
    target: TargetOption = None,
    numerics: Annotated[NumericsMode, typer.Option(help="exact: eager PyTorch's order of operations.")] = (
        NumericsMode.fast
    ),
    hidden: Annotated[
        bool, typer.Option("--hidden", help="Keep the residual streams after each layer; in mode eager only.")
    ] = False,
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the values for `compare`.")] = None,
    compare: Annotated[
        bool,
        typer.Option("--compare", help="Exit with 1 if logits differ from the golden ones by more than the noise."),
    ] = False,
    json: JsonOption = None,
) -> None:
    """Run the golden prompts through the engine, feeding the golden tokens, and compare."""
    with clean_errors():
        from ..verification.golden_run import RunOptions, choose_mode, run_golden
        from .golden_tables import comparison_tables

        chosen = choose_mode(mode and mode.value)
        if chosen == "eager":
            refuse_ignored(context, ("numerics",), "mode eager compiles nothing")
        else:
            refuse_ignored(context, ("hidden",), f"a step compiled in mode {chosen} returns no residual streams")
        options = RunOptions(chosen, batch_size, target, numerics.value, hidden)
        report = run_golden(directory, options, out, print_now)
        for table in comparison_tables(report.comparison):
            print_table(table)
        if out is not None:
            print(f"{out}: values of {len(report.choices)} prompts in mode {report.mode}")
        write_report(json, report.to_json())
    found = f"in mode {report.mode}, {describe_comparison(report.comparison)}"
    if report.comparison.agrees:
        conclude(True, found, f"deepinfer-neuron compile {directory}")
    elif compare:
        conclude(False, found, f"deepinfer-neuron verify {directory}")
    else:
        print_verdict(found, f"deepinfer-neuron verify {directory}", ExitCode.NOT_GOOD)
