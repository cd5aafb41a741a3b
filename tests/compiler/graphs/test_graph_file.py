"""A graph that was saved and read again is the same graph, and what is no graph is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.compiler.graphs.graph_file import (
    SavedGraph,
    graph_from_text,
    graph_to_text,
    load_graph,
    save_graph,
)
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.regions.canonical import canonical_text
from deepinfer_neuron.compiler.regions.cut import Region
from deepinfer_neuron.errors import ArtifactError, GraphError
from deepinfer_neuron.passes.context import STAGE
from graph_steps import TracedStep, options_of, trace_checkpoint, trace_function, trace_random
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import STEP_LISTS
from torch import Tensor, fx
from torch._higher_order_ops.while_loop import while_loop

aten = torch.ops.aten


def saved_step(step: TracedStep, target: str = "host") -> SavedGraph:
    return SavedGraph(step.module, step.aliases, target, step.stage_names, name="step")


def saved_region(region: Region, target: str) -> SavedGraph:
    return SavedGraph(region.module, region.aliases, target, name=region.name)


def again(saved: SavedGraph) -> SavedGraph:
    return graph_from_text(graph_to_text(saved), "here")


def program_text(saved: SavedGraph) -> str:
    inputs = range(len(saved.module.graph.find_nodes(op="placeholder")))
    outputs = tuple(saved.aliases.get(index, f"result {index}") for index in range(1 + max(saved.aliases, default=0)))
    return canonical_text(Region(saved.name, saved.module, tuple(inputs), outputs))


def assert_same_program(first: SavedGraph, second: SavedGraph) -> None:
    assert program_text(first) == program_text(second)
    options = options_of(first.target)
    programs = [lower_graph(one.module, options, one.aliases).bytecode for one in (first, second)]
    assert programs[0] == programs[1]
    names = [[(node.op, node.name, node.meta.get(STAGE)) for node in one.module.graph.nodes] for one in (first, second)]
    assert names[0] == names[1]


@settings(max_examples=20)
@given(STEP_LISTS, st.sampled_from(("host", "trn2")))
def test_random_graphs_come_back(steps, target):
    saved = saved_step(trace_random(steps, target), target)
    read = again(saved)
    assert_same_program(saved, read)
    assert graph_to_text(read) == graph_to_text(saved)
    assert (read.aliases, read.target, list(read.stage_names)) == (saved.aliases, target, list(saved.stage_names))


@pytest.mark.parametrize("target", ["trn2", pytest.param("host", marks=pytest.mark.slow)])
def test_a_decode_step_and_its_regions_come_back(small, tmp_path, target):
    step = trace_checkpoint(small, target)
    parts = [saved_step(step, target), *(saved_region(region, target) for region in step.cut.regions)]
    assert len(parts) == 8
    for saved in parts:
        save_graph(tmp_path / "graph.json", saved)
        assert_same_program(saved, load_graph(tmp_path / "graph.json"))
    assert [path.name for path in tmp_path.iterdir()] == ["graph.json"]


def test_a_graph_computes_the_same_when_it_comes_back():
    table = torch.tensor([[1.5, math.inf], [math.nan, -0.0]]).bfloat16().t()

    def function(x: Tensor) -> Tensor:
        def condition(i: Tensor, y: Tensor) -> Tensor:
            return i < 3

        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, y * 2 + table.float()

        _, y = while_loop(condition, body, (torch.tensor(0), x))
        filled = torch.full((2, 2), -math.inf, dtype=torch.float32).contiguous()
        return torch.cat([y.masked_fill(x > 0, -math.inf), filled.masked_fill(x > 0, math.nan)])

    step = trace_function(function, torch.tensor([[1.0, -1.0], [2.0, 0.0]]))
    read = again(saved_step(step))
    assert_same_program(saved_step(step), read)
    expected, given_back = (fx.Interpreter(one).run(*step.inputs)[0] for one in (step.module, read.module))
    assert torch.equal(expected.view(torch.int32), given_back.view(torch.int32))


def one_call(target, *args, value: Tensor | None = None, **kwargs) -> SavedGraph:
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(2, 3, device="meta")
    call = graph.call_function(target, (x, *args), kwargs)
    call.meta["val"] = torch.empty(2, 3, device="meta") if value is None else value
    graph.output((call,))
    return SavedGraph(fx.GraphModule(torch.nn.Module(), graph), {}, "host")


@pytest.mark.parametrize(
    ("target", "args", "kwargs"),
    [
        (aten.mul.Scalar, (math.nan,), {}),
        (aten.mul.Scalar, (-math.inf,), {}),
        (aten.mul.Scalar, (1e300,), {}),
        (aten.mul.Scalar, (-0.0,), {}),
        (aten.mul.Scalar, (2**40,), {}),
        (aten.clamp.default, (None, 1), {}),
        (aten.view.default, ([3, -1],), {}),
        (aten.index.Tensor, ([None, None],), {}),
        (aten.clone.default, (), {"memory_format": torch.channels_last}),
        (
            aten._to_copy.default,
            (),
            {"dtype": torch.float8_e4m3fn, "layout": torch.strided, "device": torch.device("cpu")},
        ),
        (aten.div.Tensor_mode, (2.0,), {"rounding_mode": "floor"}),
        (aten.split_with_sizes.default, ((1, 2), 1), {}),
    ],
)
def test_arguments_come_back_as_they_were(target, args, kwargs):
    read = again(one_call(target, *args, **kwargs))
    (call,) = [node for node in read.module.graph.nodes if node.op == "call_function"]
    assert call.target is target
    assert repr(call.args[1:]) == repr(args)
    assert repr(call.kwargs) == repr(kwargs)


@pytest.mark.parametrize(
    "constant",
    [
        torch.tensor([1.0, math.nan, -0.0]),
        torch.tensor([[True, False]]),
        torch.arange(6).reshape(2, 3).t(),
        torch.tensor(3, dtype=torch.uint8),
        torch.ones(0, 4, dtype=torch.int16),
        torch.tensor([0.5, 448.0]).to(torch.float8_e4m3fn),
    ],
    ids=str,
)
def test_constants_come_back_with_every_bit(constant):
    graph = fx.Graph()
    root = torch.nn.Module()
    root.register_buffer("table", constant)
    graph.output((graph.get_attr("table"),))
    read = again(SavedGraph(fx.GraphModule(root, graph), {}, "host")).module.table
    assert (read.dtype, read.shape) == (constant.dtype, constant.shape)
    assert repr(read.tolist()) == repr(constant.tolist())


def test_lines_of_the_model_are_kept_where_the_model_is_elsewhere():
    step = trace_random(["store key"])
    text = graph_to_text(saved_step(step))
    assert '"line": ["tests/helpers/random_graphs.py", ' in text
    assert str(Path.cwd()) not in text
    moved = text.replace("tests/helpers/random_graphs.py", "elsewhere/model.py")
    assert '"line": ["elsewhere/model.py", ' in graph_to_text(graph_from_text(moved, "here"))


def test_what_cannot_be_saved_is_named():
    with pytest.raises(GraphError, match="only graphs of operators"):
        graph_to_text(one_call(torch.sin))
    with pytest.raises(GraphError, match="complex"):
        graph_to_text(one_call(aten.mul.Scalar, 1j))


def edited(change) -> str:
    content = json.loads(graph_to_text(saved_step(trace_random(["store key"]))))
    change(content)
    return json.dumps(content)


def first_call(content) -> dict:
    return next(node for node in content["graph"]["nodes"] if node["op"] == "call_function")


DAMAGE = {
    "another kind": lambda content: content.update(kind="plan"),
    "no nodes": lambda content: content["graph"].pop("nodes"),
    "an unknown node": lambda content: first_call(content).update(args=[{"node": "nobody"}]),
    "a later node": lambda content: first_call(content).update(args=[{"node": content["graph"]["nodes"][-2]["name"]}]),
    "an unknown operation": lambda content: first_call(content).update(op="call_module"),
    "an unknown dtype": lambda content: first_call(content)["type"].update(dtype="Tensor"),
    "a negative size": lambda content: first_call(content)["type"].update(shape=[-1]),
    "a name twice": lambda content: first_call(content).update(name=content["graph"]["nodes"][0]["name"]),
    "no output": lambda content: content["graph"]["nodes"].pop(),
    "an alias of nothing": lambda content: content.update(aliases=[[0, 99]]),
    "a stage below 0": lambda content: first_call(content).update(stage=-1),
    "a line that is no number": lambda content: first_call(content).update(line=["model.py", "1"]),
    "unknown numerics": lambda content: content.update(numerics="wrong"),
    "a function of Python": lambda content: first_call(content).update(target="os.system.default"),
    "a part of an operator": lambda content: first_call(content).update(target="aten.add.__class__"),
    "a method of the table of operators": lambda content: first_call(content).update(target="load_library.x.y"),
    "no name of an operator": lambda content: first_call(content).update(target="aten.add"),
    "a name with a dot": lambda content: content["graph"]["constants"].update({"a.b": {}}),
    "a short constant": lambda content: content["graph"]["constants"].update(
        t={"dtype": "float32", "shape": [2], "data": "AAAA"}
    ),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_damage_is_refused(change):
    with pytest.raises(ArtifactError, match="here"):
        graph_from_text(edited(change), "here")


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "[" * 100000, "\ufffd"])
def test_what_is_no_graph_is_refused(text):
    with pytest.raises(ArtifactError, match="here is no saved graph"):
        graph_from_text(text, "here")


def test_every_cut_short_file_is_refused():
    text = graph_to_text(one_call(aten.mul.Scalar, 2))
    for end in range(len(text) - 2):
        with pytest.raises(ArtifactError):
            graph_from_text(text[:end], "here")


def test_another_schema_is_told_apart_from_damage():
    with pytest.raises(ArtifactError, match=r"has schema 2, and this version reads 1.*torch"):
        graph_from_text(edited(lambda content: content.update(schema=2)), "here")


def test_an_operator_that_is_not_registered_names_its_library():
    def change(content):
        first_call(content).update(target="mylib.fused.default")
        content["libraries"]["mylib.fused.default"] = "my_package.kernels"

    with pytest.raises(
        ArtifactError, match=r"here: operator mylib.fused.default is not registered .* import my_package.kernels"
    ):
        graph_from_text(edited(change), "here")
    with pytest.raises(ArtifactError, match="this version of PyTorch is"):
        graph_from_text(edited(lambda content: first_call(content).update(target="aten.nothing.default")), "here")


def test_the_library_of_our_kernels_is_in_the_file(small):
    content = json.loads(graph_to_text(saved_step(trace_checkpoint(small, "trn2"), "trn2")))
    assert content["libraries"]["deepinfer.rms_norm.default"] == "deepinfer_neuron.model.kernels.normalization"
    assert set(content["versions"]) == {"deepinfer-neuron", "torch", "jaxlib", "python"}
