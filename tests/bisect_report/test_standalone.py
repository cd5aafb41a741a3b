"""The script's short look at an output agrees with the project's long one."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest
from bisect_results import make_result, shell_recipe
from deepinfer_neuron.bisect_report.repro import make_case
from deepinfer_neuron.bisect_report.standalone import Ending, compare
from deepinfer_neuron.compiler.bisect.verdict import Signature
from deepinfer_neuron.compiler.targets.diagnostics import find_cause, normalise_message, parse_diagnostics

QUOTED = runpy.run_path(str(Path(__file__).parents[1] / "compiler" / "targets" / "test_diagnostics.py"))
LOGS = {name: text for name, text in QUOTED.items() if name.isupper() and isinstance(text, str) and "\n" in text}


def expected(log: str):
    cause = find_cause(parse_diagnostics(log))
    assert cause is not None
    signature = Signature("error", cause.code, normalise_message(cause.message))
    return make_case(make_result(signature=signature), shell_recipe(""))


def test_there_are_logs_of_all_forms():
    assert {"SORT", "LEGACY", "NESTED", "KILLED", "FATAL", "ABORTED"} <= LOGS.keys()


@pytest.mark.parametrize("name", LOGS)
def test_each_log_is_recognised_as_itself_and_as_no_other(name):
    case = expected(LOGS[name])
    cause = (case.code, case.message)
    for other, log in LOGS.items():
        differs = compare(case, Ending("error", "", log))
        theirs = expected(log)
        assert bool(differs) == (cause != (theirs.code, theirs.message)), (other, differs)


@pytest.mark.parametrize("name", LOGS)
def test_noise_numbers_and_names_do_not_matter(name):
    log = LOGS[name].replace("3776", "12").replace("/tmp/x/", "/var/other/").replace("\n", " ....\r\n\x1b[0m")
    assert compare(expected(LOGS[name]), Ending("error", "", f"....{log}")) == ""


def test_the_two_ends_of_an_endless_output_are_read():
    log = "." * (9 << 20) + "\n" + LOGS["SORT"] + "x" * 1000
    assert compare(expected(LOGS["SORT"]), Ending("error", "", log)) == ""
