"""The stand-in refuses what the documentation of neuronx-cc says is refused, and takes the rest."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.targets.diagnostics import Diagnostic, parse_diagnostics
from deepinfer_neuron.compiler.targets.flags import REINTERPRET_FP8, default_flags
from deepinfer_neuron.runtime.neff.reader import read_neff
from jaxlib import _jax
from jaxlib.mlir import ir
from neuron_compilers import install_compiler

ADD = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.add %a, %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}"""


def identity(type: str) -> str:
    return f"func.func @main(%a: tensor<4x{type}>) -> tensor<4x{type}> {{\n return %a : tensor<4x{type}>\n}}"


def called(operation: str, operand: str, result: str) -> str:
    return f"func.func @main(%a: {operand}) -> {result} {{\n %0 = {operation}\n return %0 : {result}\n}}"


def dot(type: str) -> str:
    square = f"tensor<2x2x{type}>"
    numbers = f"contracting_dims = [1] x [0] : ({square}, {square}) -> {square}"
    return called(f"stablehlo.dot_general %a, %a, {numbers}", square, square)


def scatter(type: str, body: str) -> str:
    scalar = f"tensor<{type}>"
    numbers = "#stablehlo.scatter<inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>"
    return f"""func.func @main(%a: tensor<4x{type}>, %i: tensor<1x1xi32>, %u: tensor<1x{type}>) -> tensor<4x{type}> {{
      %0 = "stablehlo.scatter"(%a, %i, %u) ({{
      ^bb0(%x: {scalar}, %y: {scalar}):
        {body}
      }}) {{scatter_dimension_numbers = {numbers}}}
        : (tensor<4x{type}>, tensor<1x1xi32>, tensor<1x{type}>) -> tensor<4x{type}>
      return %0 : tensor<4x{type}>
    }}"""


def adding(type: str) -> str:
    return scatter(type, f"%s = stablehlo.add %x, %y : tensor<{type}>\n stablehlo.return %s : tensor<{type}>")


SORT = """func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "stablehlo.sort"(%a) ({
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %c = stablehlo.compare LT, %x, %y : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>
  }) {dimension = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}"""
RANDOM = """func.func @main(%a: tensor<2xui64>) -> tensor<4xui32> {
  %0, %1 = stablehlo.rng_bit_generator %a, algorithm = THREE_FRY : (tensor<2xui64>) -> (tensor<2xui64>, tensor<4xui32>)
  return %1 : tensor<4xui32>
}"""


def top_k(type: str) -> str:
    return f"""func.func @main(%a: tensor<4x{type}>) -> tensor<2x{type}> {{
      %0:2 = chlo.top_k(%a, k = 2) : tensor<4x{type}> -> (tensor<2x{type}>, tensor<2xi32>)
      return %0#0 : tensor<2x{type}>
    }}"""


def custom_call(name: str) -> str:
    return called(f"stablehlo.custom_call @{name}(%a) : (tensor<4xf32>) -> tensor<4xf32>", *["tensor<4xf32>"] * 2)


def shift(type: str) -> str:
    return called(f"stablehlo.shift_right_arithmetic %a, %a : tensor<4x{type}>", *[f"tensor<4x{type}>"] * 2)


def compile_text(text: str, directory: Path, target: str = "trn2", words: tuple[str, ...] = ()) -> tuple[int, str]:
    with shared_context(), (directory / "module.mlir").open("wb") as file:
        ir.Module.parse(text).operation.write_bytecode(file)
    return run(directory, words or default_flags(target).words)


def run(directory: Path, words: tuple[str, ...], module: str = "module.mlir") -> tuple[int, str]:
    command = [str(install_compiler(directory / "bin")), "compile", module, *words, "--output=module.neff"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


REFUSED = [
    ("EVRF029", "trn2", SORT),
    ("EVRF029", "trn3", SORT),
    ("EVRF004", "trn2", identity("complex<f32>")),
    ("EMOD025", "trn2", called("stablehlo.abs %a : tensor<?xf32>", "tensor<?xf32>", "tensor<?xf32>")),
    ("EVRF005", "trn3", called("stablehlo.abs %a : tensor<4xf8E4M3FNUZ>", *["tensor<4xf8E4M3FNUZ>"] * 2)),
    ("ESPP047", "trn2", identity("f8E8M0FNU")),
    ("ESPP004", "trn2", identity("f64")),
    ("ESPP004", "trn3", identity("f4E2M1FN")),
    ("EVRF013", "trn2", top_k("i32")),
    ("EHCA005", "trn2", custom_call("SomebodysKernel")),
    ("EVRF035", "trn2", dot("i32")),
    ("EVRF035", "trn1", dot("i64")),
    ("EVRF060", "trn2", adding("i32")),
    ("EVRF022", "trn2", shift("i16")),
    ("EVRF006", "trn2", RANDOM),
]
TAKEN = [
    ("trn1", SORT),
    ("trn2", ADD),
    ("trn3", identity("f8E4M3FN")),
    ("trn2", identity("f8E4M3FN")),
    ("trn2", identity("ui8")),
    ("trn2", top_k("f32")),
    ("trn2", custom_call("AwsNeuronSilu")),
    ("trn1", dot("i32")),
    ("trn2", dot("bf16")),
    ("trn2", adding("f32")),
    ("trn2", scatter("i32", "stablehlo.return %y : tensor<i32>")),
    ("trn2", shift("i32")),
]


@pytest.mark.parametrize(("code", "target", "text"), REFUSED, ids=lambda value: value if len(value) < 8 else None)
def test_what_the_documentation_refuses_is_refused_with_its_code(code, target, text, tmp_path):
    status, output = compile_text(text, tmp_path, target)
    found: list[Diagnostic] = list(parse_diagnostics(output))
    assert (status, [one.code for one in found]) == (70, [code])
    assert not (tmp_path / "module.neff").exists()


@pytest.mark.parametrize(("target", "text"), TAKEN, ids=range(len(TAKEN)))
def test_what_nearly_is_refused_is_taken(target, text, tmp_path):
    status, output = compile_text(text, tmp_path, target)
    assert (status, parse_diagnostics(output)) == (0, ()), output
    neff = read_neff(tmp_path / "module.neff", target=target)
    assert {one.name for one in neff.tensors} >= {"input0", "output0"}


@pytest.mark.parametrize(("target", "code"), [("trn1", "EVRF051"), ("trn2", "EVRF051"), ("trn3", "EOCP001")])
def test_float8_needs_the_flag_on_trn1_and_trn2_and_its_absence_on_trn3(target, code, tmp_path):
    option = f"--internal-hlo2tensorizer-options={REINTERPRET_FP8}"
    words = ("--framework=XLA", f"--target={target}", *([option] if target == "trn3" else []))
    status, output = compile_text(identity("f8E4M3FN"), tmp_path, words=words)
    assert (status, [one.code for one in parse_diagnostics(output)]) == (70, [code])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--framework=XLA",), "--target is missing"),
        (("--framework", "ONNX", "--target=trn2"), "argument --framework: invalid choice: 'ONNX'"),
        (("--framework=XLA", "--target=inf9"), "argument --target: invalid choice: 'inf9'"),
        (("--framework=XLA", "--target=trn1", "--lnc", "2"), "[NCC_EARG001]"),
        (("--framework=XLA", "--target=trn1", "--native-int64=enabled"), "need trn2 or later"),
        (("--framework=XLA", "--target=trn2", "--fast"), "unrecognized arguments: --fast"),
        (("--framework=XLA", "--target=trn2", "-O4"), "unrecognized arguments: -O4"),
        (("--framework=XLA", "--target=trn2", "other.mlir"), "expected one model file"),
        (("--framework=XLA", "--target=trn2", *(("--internal-hlo2tensorizer-options=--a",) * 2)), "more than once"),
    ],
    ids=["target", "framework", "unknown-target", "lnc", "int64", "unknown", "level", "files", "twice"],
)
def test_other_command_lines_are_refused(words, message, tmp_path):
    status, output = compile_text(ADD, tmp_path, words=words)
    assert status == 2 and message in output


def test_a_module_that_is_none_is_refused(tmp_path):
    (tmp_path / "module.mlir").write_text("module {}")
    status, output = run(tmp_path, default_flags("trn2").words)
    assert status == 70 and "no MLIR bytecode" in output


def test_an_hlo_proto_is_taken_too(tmp_path):
    proto = _jax.mlir.mlir_module_to_xla_computation(ADD).as_serialized_hlo_module_proto()
    (tmp_path / "module.hlo.pb").write_bytes(proto)
    status, output = run(tmp_path, default_flags("trn2").words, "module.hlo.pb")
    assert status == 0, output
    assert [one.size for one in read_neff(tmp_path / "module.neff").tensors] == [16, 16]


def test_the_version_is_printed_as_the_documentation_shows_it(tmp_path):
    done = subprocess.run([str(install_compiler(tmp_path)), "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("NeuronX Compiler version 2.27.5334.0+6f180f47\n\nPython version ")
