"""What a probe saw of a real compiler, the script sees again."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from bisect_results import bytecode, make_result
from deepinfer_neuron.bisection.probes.probe import CompileProbe
from deepinfer_neuron.bisection.probes.probe_compiler import probe_compiler
from deepinfer_neuron.bisection.report.recipe import make_recipe
from deepinfer_neuron.bisection.report.write import write_result
from deepinfer_neuron.bisection.subjects.subject import Candidate
from stablehlo_texts import custom_call


@pytest.mark.parametrize("target", ["iree", "host"])
def test_a_refusal_is_reproduced(tmp_path: Path, target: str) -> None:
    candidate, compiler = Candidate(1, bytecode(custom_call("no_such_call"))), probe_compiler(target, None)
    signature = CompileProbe(compiler)(candidate, threading.Event()).signature
    assert signature is not None and signature.message
    result = make_result(minimal=candidate, smallest_module=candidate, signature=signature)
    written = write_result(result, tmp_path / "bisect", make_recipe(result, compiler))
    assert written.run is not None and written.run.is_reproduced, written.run


def test_a_command_is_reproduced_from_any_directory(tmp_path: Path) -> None:
    (tmp_path / "compiler.py").write_text("import sys; sys.exit('error: no room for f32[4,4] in ' + sys.argv[1])\n")
    candidate = Candidate(1, bytecode(custom_call("no_such_call")))
    compiler = probe_compiler(None, f"{sys.executable} {tmp_path / 'compiler.py'} {{input.mlirbc}} -o {{output}}")
    signature = CompileProbe(compiler)(candidate, threading.Event()).signature
    assert signature is not None
    result = make_result(minimal=candidate, smallest_module=candidate, signature=signature)
    written = write_result(result, tmp_path / "bisect", make_recipe(result, compiler))
    assert written.run is not None and written.run.is_reproduced, written.run
