"""The scalars of a custom operator are typed attributes of its composite, in every form that a module takes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from deepinfer_neuron.compiler.hlo.convert import default_names, hlo_proto
from deepinfer_neuron.compiler.lowering.call_arguments import composite_attributes, named_arguments
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.errors import LoweringError
from deepinfer_neuron.model.kernels import indexing, normalization, quantization  # noqa: F401
from host_programs import Host, trace
from iree_programs import run_function
from jaxlib import _jax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from torch import fx
from torch._decomp import decomposition_table

NAMESPACE = "attribute_test"
SCHEMA = (
    "many(Tensor x, Tensor? y, Tensor[] zs, float a, int b, bool c, str d, ScalarType e, int[] f, float[] g, "
    "bool[] h, int? i=None, float j=2, float[] k=[], *, str[] l) -> Tensor"
)
X, Y = torch.linspace(-1, 1, 6), torch.arange(6.0)


def body(x, y, zs, a, b, c, d, e, f, g, h, i=None, j=2.0, k=(), *, l=()):  # noqa: E741
    total = x * a + b + (sum(zs) if zs else 0.0)
    return (total if y is None else total - y) * j + sum(g) + len(l)


@pytest.fixture(scope="module", autouse=True)
def many() -> Iterator[Any]:
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(SCHEMA)
    library.impl("many", body, "CPU")
    library.impl("many", body, "Meta")
    operator = torch.ops.attribute_test.many
    decomposition_table[operator.default] = body
    yield operator
    del decomposition_table[operator.default]


def everything(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.ops.attribute_test.many(
        x, None, [y, x], 1, 7, True, "a word", torch.bfloat16, [3, 4], [0.5, 1], [True, False], l=["p", "q"]
    )


def attributes_of(function: Callable[..., Any], *inputs: torch.Tensor) -> dict[str, str]:
    """The attributes of the one custom call of a function, as text."""
    (node,) = [one for one in trace(function, *inputs).graph.nodes if "_test" in str(one.target)]
    with shared_context(), ir.Location.unknown():
        return {name: str(attribute) for name, attribute in composite_attributes(node).items()}


def test_every_kind_of_scalar_has_its_type() -> None:
    assert attributes_of(everything, X, Y) == {
        "torch.overload": '"default"',
        "torch.operands": "{x = 0 : i64, zs = [1, 0]}",
        "a": "1.000000e+00 : f64",
        "b": "7 : i64",
        "c": "true",
        "d": '"a word"',
        "e": '"bfloat16"',
        "f": "[3, 4]",
        "g": "[5.000000e-01, 1.000000e+00]",
        "h": "[true, false]",
        "j": "2.000000e+00 : f64",
        "k": "[]",
        "l": '["p", "q"]',
    }


def test_operands_are_numbered_by_their_first_use() -> None:
    def twice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.ops.attribute_test.many(y, y, [x], 1.0, 7, True, "", torch.float32, [], [], [], l=[])

    with shared_context(), ir.Location.unknown():
        (node,) = [one for one in trace(twice, X, Y).graph.nodes if "_test" in str(one.target)]
        assert [one.name for one in node.all_input_nodes] == ["y_1", "x_1"]
        assert str(composite_attributes(node)["torch.operands"]) == "{x = 0 : i64, y = 0 : i64, zs = [1]}"


def test_defaults_are_filled_in_and_none_is_left_out() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    call = graph.call_function(torch.ops.deepinfer.quantize_fp8.default, (x,))
    assert named_arguments(call) == {"x": x, "fp8_max": 448.0}
    selected = graph.call_function(torch.ops.deepinfer.select_top_rows.default, (x, x, None), {"count": 4})
    with shared_context(), ir.Location.unknown():
        assert "candidates" not in str(composite_attributes(selected)["torch.operands"])
        assert str(composite_attributes(selected)["count"]) == "4 : i64"


def test_an_argument_without_a_form_is_named() -> None:
    graph = fx.Graph()
    call = graph.call_function(torch.ops.deepinfer.quantize_fp8.default, (graph.placeholder("x"), 1j))
    with shared_context(), ir.Location.unknown(), pytest.raises(LoweringError, match=r"fp8_max=1j"):
        composite_attributes(call)


def test_a_module_keeps_them_as_bytecode_as_hlo_and_as_a_portable_artifact() -> None:
    lowered = lower_graph(trace(everything, X, Y), LoweringOptions())
    (written,) = re.findall(r"composite_attributes = (\{.*\}), decomposition", lowered.text())
    hlo = _jax.mlir.hlo_to_stablehlo(hlo_proto(lowered, default_names(lowered)))
    with shared_context(), ir.Location.unknown():
        assert written in str(ir.Module.parse(hlo)).replace("\\22", '"')
        module = ir.Module.parse(lowered.bytecode)
        artifact = stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())
        assert written in str(stablehlo.deserialize_portable_artifact(module.context, artifact))


@pytest.mark.parametrize("numerics", ["fast", "exact"])
def test_the_host_computes_the_same(numerics: str) -> None:
    (actual,) = Host().run(trace(lambda x, y: (everything(x, y),), X, Y), [X, Y], numerics)
    assert torch.equal(actual, everything(X, Y))


def test_iree_computes_the_same() -> None:
    (actual,) = run_function(lambda x, y: (everything(x, y),), X, Y)
    assert torch.equal(actual, everything(X, Y))
