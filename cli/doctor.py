"""``doctor``: what this machine has."""

from __future__ import annotations

from ..files import write_report
from .console import clean_errors, conclude, print_table
from .options import JsonOption


def doctor(json: JsonOption = None) -> None:
    """What this machine has, and the next step for what it lacks; exits with 1 if the host cannot work."""
    with clean_errors():
        from ..doctor.report import doctor_table, run_doctor

        report = run_doctor()
        print_table(doctor_table(report))
        write_report(json, report.to_json())
    if report.host_works:
        conclude(True, "everything the host needs is there", "deepinfer-neuron demo")
    else:
        conclude(False, "the host lacks something it needs", "what the last column says of each row that is not ok")
