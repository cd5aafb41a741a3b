"""Modules as HLO protos and as bytecode: read back, and run on the host with the same results."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.hlo.convert import default_names, hlo_proto, write_bytecode, write_module
from deepinfer_neuron.compiler.hlo.patch import TensorNames
from deepinfer_neuron.compiler.hlo.wire import read_fields
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.compiler.lowering.record import record
from deepinfer_neuron.errors import LoweringError
from deepinfer_neuron.model.kernels.quantization import quantize_fp8
from deepinfer_neuron.runtime.devices.pjrt import PjrtDevice
from deepinfer_neuron.runtime.devices.pjrt_client import client, compile_options, device_list
from host_programs import aligned
from jaxlib import _hlo, _jax
from stablehlo_texts import custom_call

X, Y = torch.arange(6.0).reshape(2, 3), torch.full((2, 3), 0.3)
WIDE = torch.linspace(-500, 500, 64).reshape(2, 32)
TABLE = torch.tensor([1.5, -2.0, 0.25])


def lowered(function, inputs=(X, Y), aliases=None):
    return lower_graph(record(function, inputs), LoweringOptions(), aliases)


def text(proto: bytes) -> str:
    """The whole module as HLO text, metadata included; raises where XLA cannot read it."""
    options = _hlo.HloPrintOptions()
    options.print_metadata = options.print_large_constants = True
    return _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string(options)


def run(module, inputs):
    device = PjrtDevice()
    loaded = client().compile_and_load(module, device_list(), compile_options())
    outputs = loaded.execute([device.buffer(aligned(one)) for one in inputs])
    return [device.to_torch(one).clone() for one in outputs]


@pytest.mark.parametrize("format", ["hlo", "mlir"])
def test_a_module_computes_what_it_did(format):
    inputs = (X, WIDE)
    module = lowered(lambda x, y: (torch.exp(x) + TABLE, quantize_fp8(y), y), inputs)
    content = write_module(module, format)
    again = _jax.mlir.hlo_to_stablehlo(content) if format == "hlo" else content
    expected = run(module.bytecode, inputs)
    assert len(expected) == 3
    assert all(map(torch.equal, run(again, inputs), expected))


def instruction_ids(proto: bytes) -> list[int]:
    computations = [read_fields(one.content) for one in read_fields(proto) if one.number == 3]
    instructions = [read_fields(one.content) for fields in computations for one in fields if one.number == 2]
    return [one.value for fields in instructions for one in fields if one.number == 35]


def test_ids_are_small_and_unique():
    module = lowered(lambda x, y: (quantize_fp8(x), y.sum(1), y), (WIDE, Y))
    ids = instruction_ids(hlo_proto(module, default_names(module)))
    assert sorted(ids) == list(range(1, len(ids) + 1))


def test_tensors_have_names():
    module = lowered(lambda x, y: (x + y, x * y), (X, Y))
    found = text(hlo_proto(module, TensorNames(["tokens", "cache.kv"], ["logits", "cache.kv"])))
    assert re.search(r'parameter\(0\).*neff_input_names="tokens"', found)
    assert re.search(r'parameter\(1\).*neff_input_names="cache.kv"', found)
    assert re.search(r'ROOT %tuple.*neff_output_names="logits,cache.kv"', found)


def test_aliases_are_obligations():
    module = lowered(lambda x, y: (x * y, x + y), (X, Y), {1: 0})
    assert "input_output_alias={ {1}: (0, {}, must-alias) }" in text(hlo_proto(module, default_names(module)))
    bytecode = write_module(module, "mlir")
    computation = _jax.mlir.mlir_module_to_xla_computation(bytecode, use_tuple_args=False, return_tuple=True)
    assert "input_output_alias={ {1}: (0, {}, must-alias) }" in computation.as_hlo_text()


def test_a_single_result_has_the_empty_index():
    module = lowered(lambda x, y: (x + y,), (X, Y), {0: 1})
    found = text(hlo_proto(module, TensorNames(["a", "b"], ["sum"])))
    assert "input_output_alias={ {}: (1, {}, must-alias) }" in found
    assert re.search(r'ROOT %add.*neff_output_names="sum"', found)
    bytecode = write_module(module, "mlir")
    computation = _jax.mlir.mlir_module_to_xla_computation(bytecode, use_tuple_args=False, return_tuple=False)
    assert "input_output_alias={ {}: (1, {}, must-alias) }" in computation.as_hlo_text()


def test_a_returned_parameter_is_copied():
    several = lowered(lambda x, y: (x + y, y), (X, Y))
    found = text(hlo_proto(several, default_names(several)))
    assert re.search(r"%(copy\.\d+) = f32\[2,3\]\S* copy\(%Arg_1", found)
    assert re.search(r"ROOT %tuple\S* = \S+ \S+ tuple\(%add\S*, %copy\.\d+\)", found)
    single = lowered(lambda x: (x,), (X,))
    assert re.search(
        r'ROOT %copy.*copy\(%Arg_0.*neff_output_names="output0"', text(hlo_proto(single, default_names(single)))
    )


def doubled(x):
    return (x + x,)


def test_operations_lead_back_to_the_model():
    module = lower_graph(capture(doubled, {"x": X}).module, LoweringOptions())
    line = f"tests/compiler/hlo/test_convert.py:{doubled.__code__.co_firstlineno + 1}"
    found = text(hlo_proto(module, default_names(module)))
    assert f'op_name="{line}" source_file="tests/compiler/hlo/test_convert.py"' in found


def test_composites_are_calls_and_literals_are_written_out():
    module = lowered(lambda x, y: (quantize_fp8(x), y + TABLE), (WIDE, Y))
    found = text(hlo_proto(module, default_names(module)))
    assert re.search(r'call\(.*is_composite=true.*composite.name="deepinfer.quantize_fp8"', found)
    assert "constant({1.5, -2, 0.25})" in found


def test_custom_calls_stay():
    module = lowered(lambda x: (x + x,), (TABLE[:2].contiguous(),))
    module = replace(module, bytecode=custom_call("AwsNeuronGelu").encode())
    found = text(hlo_proto(module, default_names(module)))
    assert re.search(r'ROOT %custom-call.*custom_call_target="AwsNeuronGelu".*neff_output_names="output0"', found)


def test_names_are_as_many_as_tensors():
    with pytest.raises(LoweringError, match="1 input and 3 output names for a module of 2 inputs and 3 outputs"):
        hlo_proto(lowered(lambda x, y: (x, y, x + y)), TensorNames(["x"], ["a", "b", "c"]))


def test_equal_modules_are_equal_bytes():
    module = lowered(lambda x, y: (torch.softmax(x + y, -1), x), (X, Y), {0: 0})
    assert hlo_proto(module, default_names(module)) == hlo_proto(module, default_names(module))


def test_bytecode_alone_says_how_it_is_called():
    module = lowered(lambda x, y: (x * y, x + y), (X, Y), {1: 0})
    for format in ("mlir", "hlo"):
        assert write_bytecode(module.bytecode, format) == write_module(module, format)
