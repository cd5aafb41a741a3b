"""``preflight``: what a Neuron compiler would refuse, without one."""

from __future__ import annotations

from typing import Annotated

import typer

from ..files import write_report
from .console import clean_errors, conclude, parse_sizes, print_now, print_table
from .options import (
    BatchSizesOption,
    DirectoryArgument,
    JsonOption,
    MaxContextOption,
    MaxRequestsOption,
    ModeOption,
    TargetOption,
)


def preflight(
    directory: DirectoryArgument,
    target: TargetOption = None,
    batch_sizes: BatchSizesOption = "1,2,4,8",
    mode: ModeOption = None,
    max_context: MaxContextOption = 1024,
    max_requests: MaxRequestsOption = None,
    rules: Annotated[
        bool, typer.Option("--rules", help="Also list what is checked, how it is known, and what just passes.")
    ] = False,
    histogram: Annotated[
        bool, typer.Option("--histogram", help="Also count the operations of the lowered step by their element types.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """List what the target's compiler would refuse of a decode step; exits with 1 if there is any."""
    with clean_errors():
        from ..preflight.run import run_preflight
        from .preflight_tables import findings_table, histogram_tables, rules_table

        report = run_preflight(
            directory, parse_sizes(batch_sizes), target, mode and mode.value, max_context, max_requests, print_now
        )
        for table in histogram_tables(report) if histogram else ():
            print_table(table)
        if rules:
            print_table(rules_table(report.target))
        print_table(findings_table(report))
        write_report(json, report)
    findings = sum(len(step.findings) for step in report.steps)
    checked = f"{len(report.steps)} batch sizes checked for {report.target}"
    compile = f"deepinfer-neuron compile {directory} --target {report.target}, where neuronx-cc is installed"
    conclude(
        report.passed,
        f"{checked}, {findings or 'no'} findings",
        compile if report.passed else "write what the last column says, on the model's line, and run this again",
    )
