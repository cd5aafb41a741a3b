"""The stand-in fails on the modules that a plant names, as it says, and on no others."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from deepinfer_neuron.bisection.subjects.subject import Candidate
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.targets.diagnostics import find_cause, normalise_message, parse_diagnostics
from deepinfer_neuron.compiler.targets.flags import default_flags
from deepinfer_neuron.compiler.targets.process import ProcessLimits, run_process
from deepinfer_neuron.runtime.neff.archive import read_archive
from deepinfer_neuron.runtime.neff.header import HEADER_SIZE
from deepinfer_neuron.runtime.neff.reader import read_neff
from jaxlib.mlir import ir
from neuron_compilers import install_compiler
from planted_compiler import PlantedCompiler

VECTOR = "tensor<4xf32>"
LINES = [
    "stablehlo.add %a, %b",
    "stablehlo.subtract %0, %b",
    "stablehlo.multiply %1, %a",
    "stablehlo.add %2, %b",
    "stablehlo.maximum %3, %b",
]


def module_of(lines: Sequence[str], type: str = VECTOR) -> str:
    """A function of %a and %b whose operation number N is on line 10 + N of model/file.py."""
    body = "\n".join(f'%{n} = {line} : {type} loc("model/file.py":{10 + n}:0)' for n, line in enumerate(lines))
    return f"func.func @main(%a: {type}, %b: {type}) -> {type} {{\n{body}\nreturn %{len(lines) - 1} : {type}\n}}"


KERNEL = """
func.func @main(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0:2 = stablehlo.composite "deepinfer.kernel" %a {decomposition = @kernel}
    : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi32>
}
func.func private @kernel(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0 = stablehlo.exponential %a : tensor<4xf32>
  %1 = stablehlo.convert %a : (tensor<4xf32>) -> tensor<4xi32>
  return %0, %1 : tensor<4xf32>, tensor<4xi32>
}"""


def bytecode_of(text: str) -> bytes:
    buffer = io.BytesIO()
    with shared_context():
        ir.Module.parse(text).operation.write_bytecode(buffer)
    return buffer.getvalue()


class Compiler:
    """The stand-in with plants, in a directory of its own."""

    def __init__(self, directory: Path, *plants: dict[str, Any]) -> None:
        self.directory = directory
        self.path = install_compiler(directory / "bin", plants=plants)

    def compile(self, text: str) -> tuple[int, str]:
        """Status and output."""
        done = subprocess.run(self.command(text), cwd=self.directory, capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def command(self, text: str) -> list[str]:
        (self.directory / "module.mlir").write_bytes(bytecode_of(text))
        return [str(self.path), "compile", "module.mlir", *default_flags("trn2").words, "--output=module.neff"]

    def signature(self, text: str) -> str:
        """Of the failure; ``ok`` without one."""
        status, output = self.compile(text)
        cause = find_cause(parse_diagnostics(output))
        assert (status, cause is None) in ((0, True), (70, False)), output
        return f"{cause.code or 'no code'}: {normalise_message(cause.message)}" if cause else "ok"


def plant(*patterns: dict[str, Any], then: str = "error=IBIR297", probability: float = 1, **when: Any):
    return {"when": {"all": list(patterns), **when}, "then": then, "probability": probability}


ADD, SUBTRACT, MAXIMUM = {"opcode": "add"}, {"opcode": "subtract"}, {"opcode": "maximum"}
APPLIES = [
    plant(ADD),
    plant(MAXIMUM, ADD),
    plant(MAXIMUM, ADD, SUBTRACT),
    plant(ADD, ADD),
    plant({"opcode": "add", "count": 2}),
    plant({"opcode": "add", "result": VECTOR}),
    plant({"opcode": "add", "line": "model/file.py:13"}),
    plant({"line": "model/file.py"}),
    plant(ADD, SUBTRACT, ADD, in_order=True),
    plant(at_least=5),
    plant(ADD, MAXIMUM, at_least=5, in_order=True),
    plant(),
]
DOES_NOT = [
    plant({"opcode": "divide"}),
    plant(ADD, {"opcode": "divide"}),
    plant(ADD, ADD, ADD),
    plant({"opcode": "add", "count": 3}),
    plant({"opcode": "add", "result": "tensor<8xf32>"}),
    plant({"opcode": "add", "line": "model/file.py:1"}),
    plant({"opcode": "add", "line": "file.py"}),
    plant({"opcode": "add", "name": "deepinfer.kernel"}),
    plant(MAXIMUM, ADD, in_order=True),
    plant(SUBTRACT, SUBTRACT, in_order=True),
    plant(at_least=6),
    plant(ADD, at_least=6),
]


CODES = ["EVRF001", "EVRF007", "EVRF031", "EOOM001", "IBIR297", "IBIR243", "ILSA062", "ITEN404", "TEN404"]


def verdict(directory: Path, text: str, *plants: dict[str, Any]) -> str:
    """The failure of a module without a process for it; ``ok`` for none."""
    seen = PlantedCompiler(plants, directory)(Candidate(1, bytecode_of(text)), threading.Event())
    return str(seen.signature or "ok")


@pytest.mark.parametrize("one", APPLIES, ids=range(len(APPLIES)))
def test_a_module_that_a_plant_describes_fails(one, tmp_path):
    assert verdict(tmp_path, module_of(LINES), one).startswith("error: IBIR297: ")


@pytest.mark.parametrize("one", DOES_NOT, ids=range(len(DOES_NOT)))
def test_a_module_that_lacks_something_of_it_is_compiled(one, tmp_path):
    assert verdict(tmp_path, module_of(LINES), one) == "ok"


@pytest.mark.parametrize("pattern", [{"name": "deepinfer.kernel"}, {"opcode": "exponential"}])
def test_kernels_are_found_by_name_and_by_what_is_in_them(pattern, tmp_path):
    assert verdict(tmp_path, KERNEL, plant(pattern)).startswith("error: IBIR297: ")


def test_the_entry_function_can_be_meant_alone(tmp_path):
    assert verdict(tmp_path, KERNEL, plant(at_least=2)) == "ok"
    assert verdict(tmp_path, KERNEL, plant({"opcode": "exponential", "entry": True})) == "ok"
    assert verdict(tmp_path, KERNEL, plant({"opcode": "composite", "entry": True})) != "ok"


@pytest.mark.parametrize("code", CODES)
def test_a_code_has_one_signature_in_all_modules(code, tmp_path):
    modules = [module_of(lines) for lines in (LINES, LINES[:1], LINES[:2])]
    signatures = {verdict(tmp_path, text, plant(ADD, then=f"error={code}")) for text in modules}
    assert len(signatures) == 1 and signatures.pop().startswith(f"error: {code}: ")


def test_a_flaky_failure_comes_in_its_share_of_the_runs_and_in_the_same_ones_again(tmp_path):
    runs = {}
    for name in ("first", "again"):
        (tmp_path / name).mkdir()
        compiler = PlantedCompiler([plant(ADD, probability=0.3)], tmp_path / name)
        one, other = (Candidate(1, bytecode_of(module_of(lines))) for lines in (LINES, LINES[:1]))
        # A run of another module in between changes nothing.
        order = [one, other] * 100 if name == "first" else [one] * 100 + [other] * 100
        failures = [(asked.digest, compiler(asked, threading.Event()).signature is not None) for asked in order]
        runs[name] = {which: [failed for digest, failed in failures if digest == which] for which, _ in failures}
    assert runs["first"] == runs["again"]
    assert all(15 <= sum(failed) <= 45 for failed in runs["first"].values())


def test_the_first_plant_that_applies_decides(tmp_path):
    compiler = Compiler(tmp_path, plant(MAXIMUM, SUBTRACT, then="error=IBIR243"), plant(MAXIMUM, then="error=ILSA062"))
    assert compiler.signature(module_of(LINES)).startswith("IBIR243: ")
    assert not (tmp_path / "module.neff").exists()
    assert compiler.signature(module_of(["stablehlo.maximum %a, %b"])).startswith("ILSA062: ")
    assert compiler.signature(module_of(["stablehlo.subtract %a, %b"])) == "ok"
    read_neff(tmp_path / "module.neff")


@pytest.mark.parametrize(
    ("then", "outcome", "status"),
    [
        ("signal=SIGSEGV", "signal", -11),
        ("signal=SIGABRT", "signal", -6),
        ("hang", "timeout", None),
        ("memory", "out of memory", None),
        ("silent", "error", 1),
        ("killed", "error", 1),
    ],
)
def test_every_way_to_end_can_be_planted(then, outcome, status, tmp_path):
    compiler = Compiler(tmp_path, plant(ADD, SUBTRACT, then=then))
    limits = ProcessLimits(seconds=3 if then == "hang" else 60, memory_bytes=400 << 20)
    result = run_process(compiler.command(module_of(LINES)), tmp_path, limits)
    assert result.outcome == outcome
    if status is not None:
        assert result.status == status
    assert compiler.compile(module_of(LINES[:1]))[0] == 0


def test_runs_of_processes_are_counted(tmp_path):
    compiler = Compiler(tmp_path, plant(ADD, probability=0.5))
    assert len({compiler.signature(module_of(LINES)) for _ in range(8)}) == 2


def compiled_text(directory: Path) -> str:
    """The module in the program that was written."""
    archive = (directory / "module.neff").read_bytes()[HEADER_SIZE:]
    bytecode = read_archive(archive, lambda name: name == "module.mlir").contents["module.mlir"]
    with shared_context():
        return str(ir.Module.parse(bytecode))


def opcodes(text: str) -> list[str]:
    return re.findall(r"stablehlo\.(\w+)", text)


def test_a_swap_replaces_the_last_operation_and_nothing_else(tmp_path):
    compiler = Compiler(tmp_path, plant(MAXIMUM, {"opcode": "add", "count": 2}, then="swap=subtract"))
    assert compiler.signature(module_of(LINES)) == "ok"
    assert opcodes(compiled_text(tmp_path)) == ["add", "subtract", "multiply", "subtract", "maximum"]
    assert compiler.signature(module_of(LINES[:4])) == "ok"
    assert opcodes(compiled_text(tmp_path)) == ["add", "subtract", "multiply", "add"]


def test_a_doubled_result_is_the_one_that_everybody_reads(tmp_path):
    compiler = Compiler(tmp_path, plant({"name": "deepinfer.kernel"}, then="double"))
    assert compiler.signature(KERNEL) == "ok"
    text = compiled_text(tmp_path)
    assert "%1 = stablehlo.add %0#0, %0#0 : tensor<4xf32>" in text
    assert "return %1, %0#1" in text


UNREADABLE = ["{", '[{"then": "hang"}]', '[{"when": {"all": [{"operator": "add"}]}, "then": "hang"}]']


@pytest.mark.parametrize("text", UNREADABLE, ids=["no-json", "no-condition", "unknown-word"])
def test_a_plant_that_cannot_be_read_is_no_quiet_success(text, tmp_path):
    compiler = Compiler(tmp_path)
    compiler.path.write_text(compiler.path.read_text().replace("PLANT='[]'", f"PLANT={shlex.quote(text)}"))
    status, output = compiler.compile(KERNEL)
    assert status == 1 and "Traceback" in output
