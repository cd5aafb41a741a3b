"""A module is recognised by its content, and anything else is refused with a reason."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.bisection.subjects.module_reader import read_module
from deepinfer_neuron.bisection.subjects.module_subject import ModuleSubject
from deepinfer_neuron.compiler.hlo.convert import write_module
from deepinfer_neuron.compiler.hlo.wire import message, varint, write_fields
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.compiler.lowering.record import record
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.model.kernels.experts import route
from deepinfer_neuron.model.kernels.quantization import quantize_fp8
from jaxlib import _jax
from jaxlib.mlir.dialects import stablehlo
from lowered_modules import main_of, parsed, run_module, text_of
from stablehlo_texts import binary, identity, main, unary

X = torch.linspace(-500, 500, 64).reshape(2, 32)
ADD = binary("stablehlo.add", "tensor<2xf32>")


@pytest.fixture(scope="module")
def lowered() -> LoweredModule:
    return lower_graph(
        record(lambda x, y: (torch.exp(x) - y.sum(), quantize_fp8(y)), (X, X)), LoweringOptions(), {0: 0}
    )


def portable(text: str) -> bytes:
    return stablehlo.serialize_portable_artifact_str(text, stablehlo.get_current_version())


def test_every_form_of_a_module_is_read(lowered, tmp_path):
    forms = {
        "text": text_of(lowered.bytecode).encode(),
        "located": text_of(lowered.bytecode, locations=True).encode(),
        "bytecode": lowered.bytecode,
        "portable": portable(text_of(lowered.bytecode)),
        "hlo": write_module(lowered, "hlo"),
    }
    expected = run_module(lowered.bytecode, [X, X])
    for name, content in forms.items():
        module = read_module(content)
        path = tmp_path / name
        path.write_bytes(content)
        assert read_module(path) == module
        assert all(map(torch.equal, run_module(module, [X, X]), expected)), name
        subject = ModuleSubject(path)
        assert subject.candidate(range(len(subject.items))).aliases == {0: 0}, name
        texts = [item.text for item in subject.items]
        assert any('stablehlo.composite "deepinfer.quantize_fp8"' in text for text in texts), name
    assert read_module(lowered.bytecode) is lowered.bytecode


def test_composites_with_several_results_come_back_from_a_proto():
    scores, bias = torch.randn(8, 4), torch.randn(8)
    arguments = [torch.randn(2, 4).bfloat16(), scores, bias]
    step = lower_graph(record(lambda x, w, b: route(x, w, b, 2, 1.0), arguments), LoweringOptions())
    module = read_module(write_module(step, "hlo"))
    assert 'stablehlo.composite "deepinfer.route"' in text_of(module)
    assert all(map(torch.equal, run_module(module, arguments), run_module(step.bytecode, arguments)))


def test_lines_survive_a_proto():
    location = 'loc("negate"("model/moe.py":80:0))'
    text = main("%x: tensor<2xf32>", f"%y = stablehlo.negate %x : tensor<2xf32> {location}", "tensor<2xf32>")
    computation = _jax.mlir.mlir_module_to_xla_computation(text, use_tuple_args=False, return_tuple=False)
    (item, _) = ModuleSubject(computation.as_serialized_hlo_module_proto()).items
    assert item.line == "model/moe.py:80"


def test_an_id_that_would_fill_the_memory_is_refused():
    instruction = message(2, [message(1, b"x"), message(2, b"parameter"), varint(35, (1 << 32) + (1 << 31))])
    proto = write_fields([message(1, b"main"), message(3, [message(1, b"main.1"), instruction])])
    with pytest.raises(ArtifactError, match="is damaged: an instruction has the id 6442450944"):
        read_module(proto)


def test_the_only_public_function_is_the_entry():
    renamed = ADD.replace("@main", "@forward")
    assert text_of(read_module(renamed.encode())) == text_of(ADD)
    called = "func.func private @other(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"
    with shared_context():
        assert len(main_of(parsed(read_module((called + renamed).encode()))).regions[0].blocks[0].arguments) == 2


def test_main_is_the_entry_among_several():
    other = identity("tensor<3xf32>").replace("@main", "@other")
    (item, _) = ModuleSubject((other + unary("stablehlo.negate", "tensor<2xf32>")).encode()).items
    assert "stablehlo.negate" in item.text


BRANCHES = """func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  cf.br ^bb1
^bb1:
  return %x : tensor<2xf32>
}"""
PRIVATE_MAIN = "func.func private @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> }"


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is empty"),
        (b" \n", "it is empty"),
        (b"graph text", "custom op 'graph' is unknown"),
        (b"HloModule main\nENTRY main {}", "it is an HLO module as text: write it as a proto"),
        (b"ML\xefR\x06MLIR", "bytecode"),
        (b"ML\xefR\x0dStableHLO_v1.0.0\x00\x07", "artifact"),
        (b"\x00\x01\x02\xff", "no protocol buffer"),
        (b"PK\x03\x04 a zip archive", "no protocol buffer"),
        (b"\x0a\x04main", "XLA cannot read the HLO module proto"),
        (b"module {}", r"the public functions \[\]"),
        (
            (ADD + identity("tensor<2xf32>")).replace("main", "one", 1).replace("main", "two", 1).encode(),
            "make all but",
        ),
        ((ADD.replace("@main", "@forward") + PRIVATE_MAIN).encode(), "another function is named main"),
        (ADD.replace("stablehlo.add", "mhlo.add").encode(), "mhlo"),
        (ADD.replace("%x, %z :", "%x, %x2 :").encode(), "undeclared SSA value"),
        (b"func.func private @main(tensor<2xf32>) -> tensor<2xf32>", r"the public functions \[\]"),
        (BRANCHES.encode(), "blocks|unknown"),
    ],
)
def test_anything_else_is_refused_with_a_reason(content, reason):
    with pytest.raises(ArtifactError, match=reason) as error:
        read_module(content)
    assert "expected MLIR text or bytecode" in str(error.value)


def test_a_damaged_file_is_named(lowered, tmp_path):
    path = tmp_path / "step.mlir"
    for content in (lowered.bytecode[:200], write_module(lowered, "hlo")[:-9], portable(ADD)[:90]):
        path.write_bytes(content)
        with pytest.raises(ArtifactError, match=r"step\.mlir cannot be used"):
            read_module(path)
    with pytest.raises(ArtifactError, match=r"missing\.mlir cannot be read: No such file or directory"):
        read_module(tmp_path / "missing.mlir")
    with pytest.raises(ArtifactError, match="cannot be read: Is a directory"):
        read_module(tmp_path)
