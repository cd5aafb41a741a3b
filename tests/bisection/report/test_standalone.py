"""The script judges an output as the project does."""

from __future__ import annotations

import runpy

import compiler_logs
import pytest
from deepinfer_neuron.bisection.probes.failure_signature import signature_of
from deepinfer_neuron.bisection.report.script_source import script_source
from deepinfer_neuron.compiler.targets.supervision import ProcessResult

LOGS = {name: text for name, text in vars(compiler_logs).items() if name.isupper() and "\n" in text}
OTHERS = {
    "mlir": "module.mlir:7:5: error: no room for tensor<4xf32>: %0 = stablehlo.sort(%1)\nnote: see\n",
    "assertion": "x.cpp:17: void f(int): Assertion `rank < 5' failed.\nAborted\n",
    "exception": "Traceback (most recent call last):\n  File 'a.py'\nTypeError: 7 of f32[4]\n",
    "last line": "one\nit was op_17 in /tmp/x\n\n",
    "nothing": "",
}


@pytest.fixture(scope="module")
def script(tmp_path_factory) -> dict:
    path = tmp_path_factory.mktemp("script") / "script.py"
    path.write_text(script_source())
    return runpy.run_path(str(path))


def test_there_are_logs_of_all_forms():
    assert {"SORT", "LEGACY", "NESTED", "KILLED", "FATAL", "ABORTED"} <= LOGS.keys()


@pytest.mark.parametrize(
    ("outcome", "status"), [("error", 70), ("error", 139), ("signal", -6), ("timeout", -9), ("ok", 0)]
)
@pytest.mark.parametrize("log", [*LOGS.values(), *OTHERS.values()], ids=[*LOGS, *OTHERS])
def test_every_output_gets_the_same_signature(script, log, outcome, status):
    ours = signature_of(ProcessResult(outcome, status, 1.0, log), log)
    theirs = script["signature_of"](script["ProcessResult"](outcome, status, 1.0, log), log)
    assert str(theirs) == str(ours)
    assert (theirs is None) == (ours is None) == (outcome == "ok")


def test_what_codes_mean_here_is_not_told_the_compilers_makers(script):
    assert "DOCUMENTED" not in script
    assert "deepinfer" not in script_source()
