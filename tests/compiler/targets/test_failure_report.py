from __future__ import annotations

from deepinfer_neuron.compiler.targets.command import CompilerCommand
from deepinfer_neuron.compiler.targets.failure_report import FailedRun, report_failure
from deepinfer_neuron.compiler.targets.process import ProcessResult

SORT = "[ERROR] [NCC_EVRF029] Operation sort is not supported on trn2."
COMPILER = CompilerCommand("trn2", ("neuronx-cc", "compile", "{input}"), "a module.mlir", "", "mlir", "")


def failed(log: str, status: int = 70, damage: str = "") -> FailedRun:
    return FailedRun(ProcessResult("error" if status > 0 else "ok", status, 1.0, log), log, damage)


def report(*runs: FailedRun, lines: tuple[str, ...] = ()) -> list[str]:
    return report_failure(COMPILER, runs, lambda opcode: lines if opcode == "sort" else ()).splitlines()


def test_the_first_line_is_the_cause_and_the_last_one_the_command():
    lines = report(failed(SORT))
    assert lines[0] == "trn2: NCC_EVRF029: Operation sort is not supported on trn2."
    assert lines[-1] == "  neuronx-cc ended with status 70: neuronx-cc compile 'a module.mlir'"


def test_lines_of_the_model_are_named_up_to_four():
    assert report(failed(SORT), lines=("a.py:1",))[0].startswith("trn2: NCC_EVRF029 at a.py:1: ")
    many = report(failed(SORT), lines=tuple(f"a.py:{number}" for number in range(9)))
    assert many[0].startswith("trn2: NCC_EVRF029 at a.py:0 or a.py:1 or a.py:2 or a.py:3 or 5 more: ")


def test_a_line_that_the_compiler_names_is_taken():
    assert report(failed(f"b.py:7: {SORT}"), lines=("a.py:1",))[0].startswith("trn2: NCC_EVRF029 at b.py:7: ")


def test_other_errors_and_earlier_tries_are_listed():
    lines = report(failed("[NCC_ITEN404] Internal tensorizer error: x"), failed(f"{SORT}\n[F134] aborted"))
    assert "  also seen: F134: aborted" in lines
    assert "  an earlier try: NCC_ITEN404: Internal tensorizer error: x" in lines
    assert lines[-1].startswith("  neuronx-cc ended with status 70 in each of 2 tries: ")


def test_without_an_error_the_last_lines_are_shown():
    lines = report(failed("".join(f"line {number}\n\n" for number in range(20)), status=1))
    assert lines[0] == "trn2: neuronx-cc ended with status 1"
    assert lines[1:9] == [f"  | line {number}" for number in range(12, 20)]


def test_a_damaged_program_is_the_headline_whatever_was_printed():
    assert report(failed(SORT, 0, "truncated"))[0] == "trn2: neuronx-cc reported success without a program: truncated"
