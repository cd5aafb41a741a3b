"""``doctor``: what this machine has."""

from __future__ import annotations

import typer

from ..files import write_report
from .console import clean_errors, print_table
from .options import JsonOption


def doctor(json: JsonOption = None) -> None:
    """What this machine has, and the next step for what it lacks; exits with 1 if the host cannot work."""
    with clean_errors():
        from ..doctor.report import doctor_table, run_doctor

        report = run_doctor()
        print_table(*doctor_table(report))
        write_report(json, report.to_json())
    if not report.host_works:
        raise typer.Exit(1)
