"""A graph as Python computes what it computes, in a process that has torch and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from deepinfer_neuron.bisection.subjects.graph_python import graph_python
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.steps.pass_captured import pass_captured
from deepinfer_neuron.compiler.targets.table import find_target
from deepinfer_neuron.errors import GraphError
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.kernels.normalization import rms_norm
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import target_numerics
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.verification.step import FedStep
from fed_steps import trace_call
from host_programs import trace
from hypothesis import given, settings
from random_graphs import STEP_LISTS, RandomModel, example_inputs
from torch import Tensor, fx, nn


def loaded(text: str) -> dict[str, Any]:
    """The names that the file defines."""
    names: dict[str, Any] = {}
    exec(compile(text, "graph.py", "exec"), names)
    return names


def assert_same_bits(actual: Any, expected: Any) -> None:
    assert len(actual) == len(expected)
    for one, other in zip(actual, expected, strict=True):
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        views = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (one, other))
        assert torch.equal(*views)


def assert_computes_the_same(module: fx.GraphModule) -> dict[str, Any]:
    names = loaded(graph_python(module))
    inputs = names["example_inputs"]()
    for tensor, node in zip(inputs, module.graph.find_nodes(op="placeholder"), strict=True):
        like = node.meta["val"]
        assert (tensor.dtype, tensor.shape, tensor.stride()) == (like.dtype, like.shape, like.stride())
    assert_same_bits(names["forward"](*inputs), fx.Interpreter(module).run(*inputs))
    return names


def step_of(model: nn.Module, **inputs: Tensor) -> FedStep:
    return trace_call(model, inputs, "trn2")


class Doubling(nn.Module):
    """Doubles until a limit; a loop, with a constant in its body."""

    def forward(self, x: Tensor, limit: Tensor) -> tuple[Tensor, Tensor]:
        def small(x: Tensor, count: Tensor) -> Tensor:
            return count < 5

        def double(x: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2 + limit, count + 1

        return torch.while_loop(small, double, (x, torch.zeros((), dtype=torch.int32)))


@settings(max_examples=12)
@given(STEP_LISTS)
def test_random_graphs_compute_the_same(steps: list[str]) -> None:
    inputs = dict(zip(("x", "rows"), example_inputs(), strict=True))
    assert_computes_the_same(trace_call(RandomModel(steps), inputs).module)


def test_loops_are_functions_of_their_own() -> None:
    module = step_of(Doubling(), x=torch.ones(3), limit=torch.ones(3)).module
    names = assert_computes_the_same(module)
    assert "def loop_1(" in graph_python(module)
    assert names["forward"](torch.ones(3), torch.zeros(3))[0].tolist() == [32.0] * 3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float8_e4m3fn, torch.int64, torch.bool])
@pytest.mark.parametrize("values", [[], [1.0, 1.0, 1.0], [0.0, 1.0, -2.0]], ids=["empty", "equal", "different"])
def test_constants_keep_their_bits(dtype: torch.dtype, values: list[float]) -> None:
    assert_computes_the_same(with_constant(torch.tensor(values).to(dtype)))


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf, -0.0, 1e-45, 0.1])
def test_odd_floats_keep_their_bits_as_constants_and_as_arguments(value: float) -> None:
    assert_computes_the_same(with_constant(torch.tensor([value, value])))
    assert_computes_the_same(with_constant(torch.tensor([[1.0, value]]).t()))
    assert_computes_the_same(trace(lambda x: (torch.where(x > 0, x, value),), torch.zeros(3)))


def with_constant(constant: Tensor) -> fx.GraphModule:
    """A graph that returns a constant."""
    root, graph = nn.Module(), fx.Graph()
    root.register_buffer("held", constant)
    graph.output((graph.get_attr("held"),))
    return fx.GraphModule(root, graph)


@pytest.mark.parametrize(
    "x",
    [
        *(torch.zeros(4, 3).t(), torch.zeros(1, 3).expand(4, 3), torch.zeros(0, 3), torch.zeros(())),
        *(torch.zeros(3, dtype=torch.float8_e5m2), torch.zeros(2, dtype=torch.uint8), torch.zeros(8)[::3]),
    ],
    ids=["transposed", "expanded", "empty", "scalar", "float8", "codes", "strided"],
)
def test_inputs_of_every_arrangement_are_made(x: Tensor) -> None:
    assert_computes_the_same(trace(lambda x: (x.clone(), torch.ones_like(x, dtype=torch.float32)), x))


def test_a_plain_graph_needs_torch_alone(tmp_path: Path) -> None:
    def step(x: Tensor, rows: Tensor) -> tuple[Tensor, ...]:
        best, order = torch.topk(x.bfloat16() @ x.bfloat16().t(), 2)
        return best.float().softmax(-1), order, x.index_select(0, rows), torch.zeros(2, device="cpu")

    text = graph_python(trace(step, torch.zeros(4, 3), torch.zeros(2, dtype=torch.int64)))
    code = "\nprint(len(forward(*example_inputs())), [name for name in sys.modules if name.startswith('deepinfer')])\n"
    (tmp_path / "graph.py").write_text(f"import sys\n{text}{code}")
    done = subprocess.run([sys.executable, "-I", "graph.py"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("4 []\n", "")


def test_custom_operators_import_what_defines_them() -> None:
    module = trace(lambda x, w: (rms_norm(x, w, 1e-6),), torch.zeros(2, 4).bfloat16(), torch.zeros(4).bfloat16())
    text = graph_python(module)
    assert text.startswith("import torch\nimport deepinfer_neuron.model.kernels.normalization\n")
    assert "torch.ops.deepinfer.rms_norm.default(input_0, input_1, 1e-06)  # bf16[2, 4]" in text
    assert_computes_the_same(module)


def test_names_and_places_in_the_model_do_not_matter() -> None:
    def graph(first: str, second: str) -> fx.GraphModule:
        graph = fx.Graph()
        x = graph.placeholder(first)
        x.meta["val"] = torch.zeros(2, device="meta")
        y = graph.create_node("call_function", torch.ops.aten.neg.default, (x,), name=second)
        y.meta["val"] = torch.zeros(2, device="meta")
        graph.output((y,))
        return fx.GraphModule(nn.Module(), graph)

    assert graph_python(graph("x", "neg")) == graph_python(graph("arg71_1", "neg_32"))


def test_what_is_no_operator_is_refused_by_name() -> None:
    graph = fx.Graph()
    graph.output((graph.call_method("tanh", (graph.placeholder("x"),)),))
    with pytest.raises(GraphError, match="call_method 'tanh' cannot be written as Python"):
        graph_python(fx.GraphModule(nn.Module(), graph))
    graph = fx.Graph()
    graph.output((graph.call_function(torch.tanh, (graph.placeholder("x"),)),))
    with pytest.raises(GraphError, match=r"'tanh' calls .*: expected an operator of torch\.ops"):
        graph_python(fx.GraphModule(nn.Module(), graph))
    with pytest.raises(GraphError, match=r"input 'x' is None: expected a tensor"):
        bare = fx.Graph()
        bare.output((bare.placeholder("x"),))
        graph_python(fx.GraphModule(nn.Module(), bare))


@pytest.mark.slow
def test_a_whole_decode_step_computes_the_same(nano_a: Path) -> None:
    geometry = CacheGeometry.for_requests(max_context=96, max_requests=2, block_tokens=8)
    model = load_model(open_checkpoint(nano_a), geometry, target_numerics("trn2"))
    slots = model.decode_slots
    inputs = {one.name: torch.full((2, *one.row_shape), one.pad_value, dtype=one.dtype) for one in slots}
    passed = pass_captured(capture(model, inputs), find_target("trn2"), slots)
    assert_computes_the_same(passed.module)
