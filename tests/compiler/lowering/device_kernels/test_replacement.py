"""Which calls become custom calls, what these look like, and what the rest of the program makes of them."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from deepinfer_neuron.compiler.hlo.convert import default_names, hlo_proto
from deepinfer_neuron.compiler.lowering.device_kernels.kernel import CompilerCall, OperatorCall
from deepinfer_neuron.compiler.lowering.device_kernels.registry import register_kernel
from deepinfer_neuron.compiler.lowering.device_kernels.replacement import Replacements
from deepinfer_neuron.compiler.lowering.device_kernels.rms_norm import RMS_NORM
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.compiler.lowering.options import KernelTarget, LoweringOptions, device_options
from deepinfer_neuron.errors import LoweringError
from deepinfer_neuron.preflight.check import check_module
from deepinfer_neuron.runtime.artifacts import TensorType
from host_programs import trace
from jaxlib import _hlo
from stand_in_kernels import SOURCE, nki_rms_norm

ops = torch.ops.deepinfer
BF16, WEIGHT = torch.zeros(3, 64, dtype=torch.bfloat16), torch.zeros(64)
HEADS = torch.zeros(3, 4, 128, dtype=torch.bfloat16)
ANGLES = torch.zeros(3, 32)


def options_for(target: str, logical_core_size: int = 2) -> LoweringOptions:
    return replace(device_options(target), kernels_for=KernelTarget(target, logical_core_size))


def lower(function: Callable[..., Any], *inputs: torch.Tensor, target: str = "trn2") -> LoweredModule:
    return lower_graph(trace(lambda *given: (function(*given),), *inputs), options_for(target))


def normalized(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return ops.rms_norm(x, weight, 1e-20)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    return ops.rotate(x, cos, sin, False)


def custom_calls(lowered: LoweredModule) -> list[str]:
    return re.findall(r"stablehlo.custom_call .*", lowered.text())


def hlo_text(lowered: LoweredModule) -> str:
    proto = hlo_proto(lowered, default_names(lowered))
    return _hlo.HloModule.from_serialized_hlo_module_proto(proto).to_string()


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3"])
def test_the_compiler_s_kernel_replaces_the_body(target: str) -> None:
    lowered = lower(normalized, BF16, WEIGHT, target=target)
    assert "composite" not in lowered.text()
    assert [re.sub(r"%\S+", "%", call) for call in custom_calls(lowered)] == [
        'stablehlo.custom_call @AwsNeuronRmsNorm(% % % {api_version = 0 : i32, backend_config = "1"} : '
        "(tensor<3x64xf32>, tensor<64xf32>, tensor<f32>) -> tensor<3x64xf32>"
    ]
    assert "dense<9.99999968E-21> : tensor<f32>" in lowered.text()
    assert check_module(lowered.bytecode, target) == []


def test_hlo_has_the_call_as_public_libraries_write_it() -> None:
    text = hlo_text(lower(normalized, BF16, WEIGHT))
    assert 'custom_call_target="AwsNeuronRmsNorm", api_version=API_VERSION_UNSPECIFIED' in text
    assert 'backend_config="1"' in text


def test_without_a_target_for_kernels_the_body_stays() -> None:
    lowered = lower_graph(trace(lambda x, w: (normalized(x, w),), BF16, WEIGHT), device_options("trn2"))
    assert "composite" in lowered.text() and custom_calls(lowered) == []


def test_calls_inside_other_bodies_are_replaced() -> None:
    with torch.library._scoped_library("kernel_test", "FRAGMENT") as library:
        library.define("outer(Tensor x, Tensor w) -> Tensor")
        for key in ("CPU", "Meta"):
            library.impl("outer", lambda x, w: normalized(x, w) * 2, key)
        outer = torch.ops.kernel_test.outer
        torch._decomp.decomposition_table[outer.default] = lambda x, w: normalized(x, w) * 2
        text = lower(lambda x, w: outer(x, w), BF16, WEIGHT).text()
        del torch._decomp.decomposition_table[outer.default]
    assert 'composite "kernel_test.outer"' in text and "@AwsNeuronRmsNorm" in text


@pytest.mark.parametrize(
    ("x", "weight", "eps", "accepted"),
    [
        (BF16, WEIGHT, 1e-20, True),
        (torch.zeros(2, 3, 64), WEIGHT.bfloat16(), 0.0, True),
        (torch.zeros(64), WEIGHT, 1e-6, False),
        (BF16.double(), WEIGHT, 1e-6, False),
        (BF16, torch.zeros(1), 1e-6, False),
        (BF16, WEIGHT, 1e-50, False),
    ],
)
def test_conditions_of_the_compiler_s_kernel(x, weight, eps, accepted) -> None:
    types = {"x": TensorType(x.dtype, tuple(x.shape)), "weight": TensorType(weight.dtype, tuple(weight.shape))}
    assert RMS_NORM.accepts(OperatorCall(RMS_NORM.operator, {**types, "eps": eps})) == accepted


def test_a_kernel_whose_source_is_not_installed_is_passed_over() -> None:
    lowered = lower(rotated, HEADS, ANGLES, ANGLES)
    assert custom_calls(lowered) == [] and lowered.files == {}
    assert 'composite "deepinfer.rotate"' in lowered.text()


def test_an_nki_kernel_is_called_by_its_config_and_comes_with_its_file(nki_standin: None) -> None:
    lowered = lower(rotated, HEADS, ANGLES, ANGLES)
    (call,) = custom_calls(lowered)
    assert "@AwsNeuronCustomNativeKernel" in call
    assert "(tensor<64x1x4x3xf32>, tensor<32x1x3xf32>, tensor<32x1x3xf32>) -> tensor<64x1x4x3xf32>" in call
    config = json.loads(base64.b64decode(re.search(r'backend_config = "([^"]+)"', call)[1]))
    assert config["func_name"] == "nkilib.core.embeddings.rope.RoPE"
    ((name, content),) = lowered.files.items()
    assert config["klir_binary"]["binary"].endswith(f"/{name}")
    assert content == (b"RoPE trn2 lnc=2 {'lnc_shard': False, 'contiguous_layout': False, 'relayout_in_sbuf': False}")
    assert check_module(lowered.bytecode, "trn2") == []


@pytest.mark.parametrize(
    ("x", "angles"), [(HEADS, torch.zeros(3, 8)), (torch.zeros(3, 2, 2, 128), ANGLES), (HEADS.half(), ANGLES)]
)
def test_rotations_that_the_library_has_no_kernel_for_keep_their_body(nki_standin: None, x, angles) -> None:
    assert custom_calls(lower(rotated, x, angles, angles)) == []


def test_the_library_s_kernel_is_not_for_trn1(nki_standin: None) -> None:
    assert custom_calls(lower(rotated, HEADS, ANGLES, ANGLES, target="trn1")) == []


def test_a_registered_kernel_is_tried_before_those_that_ship(write_source) -> None:
    write_source()
    register_kernel(nki_rms_norm(targets=("trn2",)))
    assert "@AwsNeuronCustomNativeKernel" in lower(normalized, BF16, WEIGHT).text()
    assert "@AwsNeuronRmsNorm" in lower(normalized, BF16, WEIGHT, target="trn3").text()


def test_a_signature_is_compiled_once(write_source, monkeypatch: pytest.MonkeyPatch) -> None:
    write_source()
    register_kernel(nki_rms_norm())
    replacements = Replacements(options_for("trn2"))
    graph = trace(lambda x, y, w: (normalized(x, w), normalized(y, w), normalized(x[:2], w)), BF16, BF16, WEIGHT).graph
    first, second, other = (replacements.find(node) for node in graph.nodes if "rms_norm" in str(node.target))
    assert first is second is not other


ALIASED = SOURCE + "\n\nrms_norm.standin_aliases = {0: 0}\n"


def aliased_lowering(function: Callable[..., Any], *inputs: torch.Tensor, **changes: Any) -> LoweredModule:
    register_kernel(nki_rms_norm(**{"aliases": {0: 0}, **changes}))
    return lower(function, *inputs)


def test_an_output_in_an_operand_s_place_is_said_in_both_formats(write_source) -> None:
    write_source(ALIASED)
    lowered = aliased_lowering(normalized, BF16, WEIGHT)
    alias = "#stablehlo.output_operand_alias<output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>"
    assert f"output_operand_aliases = [{alias}]" in custom_calls(lowered)[0]
    assert "output_to_operand_aliasing={{}: (0, {})}" in hlo_text(lowered)


def test_a_kernel_may_write_into_a_value_that_nobody_else_reads(write_source) -> None:
    write_source(ALIASED)
    x = BF16.float()
    assert custom_calls(aliased_lowering(lambda x, w: normalized(x + 1, w), x, WEIGHT))


@pytest.mark.parametrize(
    "function", [normalized, lambda x, w: normalized(y := x * 2, w) + y], ids=["an input", "a value that is read again"]
)
def test_a_kernel_that_writes_into_what_others_read_is_refused(write_source, function) -> None:
    write_source(ALIASED)
    with pytest.raises(LoweringError, match="writes into its operand 0"):
        aliased_lowering(function, BF16.float(), WEIGHT)


def test_the_result_may_not_read_what_was_written_into(write_source) -> None:
    write_source(ALIASED)
    reads = {"result": lambda outputs, x, weight, eps: outputs[0] + x}
    with pytest.raises(LoweringError, match="writes into its operand 0"):
        aliased_lowering(lambda x, w: normalized(x + 1, w), BF16.float(), WEIGHT, **reads)


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        (SOURCE.replace("eps, dimension", "epsilon, dimension"), {}, "parameters.*another version"),
        (SOURCE.replace("dimension", "axis"), {}, "parameters.*another version"),
        (SOURCE.replace("* weight", "* weight.double()"), {}, "returns .*float64.*expects .*float32"),
        (SOURCE, {"aliases": {0: 0}}, r"into operands \{\}.*expects \{0: 0\}"),
        (ALIASED, {}, r"into operands \{0: 0\}.*expects \{\}"),
        (SOURCE + "\nrms_norm.standin_collectives = True\n", {}, "other cores"),
        (SOURCE, {"result": lambda outputs, x, weight, eps: outputs[0]}, r"float32\[3, 64\].*bfloat16\[3, 64\]"),
    ],
)
def test_a_kernel_that_does_not_fit_its_entry_is_refused(write_source, text, changes, message) -> None:
    write_source(text)
    register_kernel(nki_rms_norm(**changes))
    with pytest.raises(LoweringError, match=message):
        lower(normalized, BF16, WEIGHT)


def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x * 0.5, x * 2


def test_several_outputs_are_several_results_and_aliases_say_which(monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.library._scoped_library("kernel_test", "FRAGMENT") as library:
        library.define("halves(Tensor x) -> (Tensor, Tensor)")
        for key in ("CPU", "Meta"):
            library.impl("halves", halves, key)
        operator = torch.ops.kernel_test.halves
        monkeypatch.setitem(torch._decomp.decomposition_table, operator.default, halves)
        kernel = replace(
            RMS_NORM,
            name="stand-in halves",
            operator="kernel_test.halves.default",
            accepts=lambda call: True,
            operands=lambda x: (x,),
            outputs=lambda x: (torch.empty_like(x), torch.empty_like(x)),
            result=lambda outputs, x: (outputs[1], outputs[0]),
            code=CompilerCall("AwsNeuronCustomOp", lambda x: "a config"),
            aliases={1: 0},
        )
        register_kernel(kernel)
        text = lower(lambda x: operator(x + 1)[0], WEIGHT).text()
    assert (
        '%1:2 = stablehlo.custom_call @AwsNeuronCustomOp(%0) {api_version = 0 : i32, backend_config = "a config"'
        in text
    )
    assert "output_tuple_indices = [1], operand_index = 0" in text
    assert "return %1#1 : tensor<64xf32>" in text
