"""Any part of a graph is a graph that lowers, and computes in eager what it computes as a part."""

from __future__ import annotations

import operator
import os
import subprocess
import sys
from collections.abc import Sequence

import graph_steps
import pytest
import torch
from deepinfer_neuron.bisection.subjects.graph_subject import GraphSubject
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.errors import GraphError
from deepinfer_neuron.passes.context import placeholders, results
from graph_steps import TracedStep, options_of, subject_of, trace_checkpoint, trace_function, trace_random
from hypothesis import given, settings
from hypothesis import strategies as st
from random_graphs import STEP_LISTS
from torch import Tensor, fx
from torch._higher_order_ops.while_loop import while_loop


class Recorder(fx.Interpreter):
    """Keeps the value of every node by its name."""

    def __init__(self, module: fx.GraphModule):
        super().__init__(module)
        self.values: dict[str, Tensor] = {}

    def run_node(self, n: fx.Node):
        value = super().run_node(n)
        self.values[n.name] = value.clone() if isinstance(value, Tensor) else value
        return value


def eager_values(step: TracedStep) -> dict[str, Tensor]:
    recorder = Recorder(step.module)
    recorder.run(*(one.clone() for one in step.inputs))
    return recorder.values


def bits(tensor: Tensor) -> Tensor:
    plain = tensor.contiguous().reshape(-1)
    return plain if plain.dtype is torch.bool else plain.view(torch.uint8)


def assert_computes_its_part(graph: fx.GraphModule, values: dict[str, Tensor]) -> None:
    fed = [values[node.name].contiguous() for node in placeholders(graph)]
    returned = fx.Interpreter(graph).run(*fed)
    for node, value in zip(results(graph), returned, strict=True):
        assert value.dtype == values[node.name].dtype
        assert torch.equal(bits(value), bits(values[node.name])), node.name


def operations_of(graph: fx.GraphModule) -> list[str]:
    calls = [node for node in graph.graph.nodes if node.op == "call_function"]
    return [f"%{node.name}" for node in calls if node.target is not operator.getitem]


def names_of(nodes: Sequence[fx.Node]) -> list[str]:
    return [node.name for node in nodes]


def assert_parts_compute_the_same(steps, target, data):
    step = trace_random(steps, target)
    subject, values = subject_of(step, target), eager_values(step)
    operations = sum(not item.is_result for item in subject.items)
    for _ in range(4):
        keep = data.draw(st.sets(st.integers(0, len(subject.items) - 1), min_size=1))
        if min(keep) >= operations:
            with pytest.raises(GraphError, match="keep at least one"):
                subject.candidate(keep)
            continue
        candidate = subject.candidate(keep)
        assert candidate.size == sum(index < operations for index in keep)
        assert candidate.graph is not None
        candidate.graph.graph.lint()
        assert_computes_its_part(candidate.graph, values)
        assert candidate == subject.candidate(sorted(keep, reverse=True))


@settings(max_examples=10)
@given(STEP_LISTS, st.sampled_from(("host", "trn2")), st.data())
def test_parts_of_random_graphs_lower_and_compute_the_same(steps, target, data):
    assert_parts_compute_the_same(steps, target, data)


@pytest.mark.slow
@settings(max_examples=400)
@given(STEP_LISTS, st.sampled_from(("host", "trn2", "trn3")), st.data())
def test_parts_of_many_random_graphs_lower_and_compute_the_same(steps, target, data):
    assert_parts_compute_the_same(steps, target, data)


@given(STEP_LISTS, st.sampled_from(("host", "trn2")))
@settings(max_examples=10)
def test_all_items_are_the_program_and_reads_are_its_edges(steps, target):
    step = trace_random(steps, target)
    subject = subject_of(step, target)
    candidate = subject.candidate(range(len(subject.items)))
    assert candidate.module == lower_graph(step.module, options_of(target), step.aliases).bytecode
    assert candidate.aliases == step.aliases
    nodes = list(step.module.graph.nodes)
    makers = {node.name: node.args[0].name if node.target is operator.getitem else node.name for node in nodes}
    given = set(names_of(placeholders(step.module)))
    for index, item in enumerate(subject.items):
        assert all(read < index for read in item.reads)
        if not item.is_result:
            lost = set(names_of(placeholders(subject.candidate([index]).graph))) - given
            assert {subject.items[read].name for read in item.reads} == {f"%{makers[name]}" for name in lost}


@pytest.fixture(scope="module", params=["trn2", pytest.param("host", marks=pytest.mark.slow)])
def decode(request: pytest.FixtureRequest, small) -> tuple[TracedStep, GraphSubject]:
    step = trace_checkpoint(small, request.param)
    return step, subject_of(step, request.param)


def test_every_operation_of_a_decode_step_is_a_program(decode):
    step, subject = decode
    whole = subject.candidate(range(len(subject.items)))
    assert whole.module == lower_graph(step.module, subject.options, step.aliases).bytecode
    operations = [index for index, item in enumerate(subject.items) if not item.is_result]
    assert len(operations) > 150
    for index in operations:
        candidate = subject.candidate([index])
        assert candidate.size == 1
        assert operations_of(candidate.graph) == [subject.items[index].name]


def test_parts_of_a_decode_step_lower(decode):
    _, subject = decode
    generator = torch.Generator().manual_seed(1)
    count = len(subject.items)
    for share in (0.02, 0.2, 0.5, 0.9):
        keep = torch.nonzero(torch.rand(count, generator=generator) < share).flatten().tolist()
        assert subject.candidate(keep).size > 0


def test_regions_follow_each_other_and_equal_ones_are_the_same_bytes(decode):
    _, subject = decode
    groups = [item.group for item in subject.items]
    runs = [group for index, group in enumerate(groups) if index == 0 or groups[index - 1] != group]
    assert len(runs) == len(set(runs)) == 7
    experts = [[i for i, group in enumerate(groups) if group == f"layers.{layer}.experts"] for layer in (0, 1)]
    assert subject.candidate(experts[0]).digest == subject.candidate(experts[1]).digest


def test_a_lost_operand_is_an_input_behind_those_of_the_program():
    def function(x, y):
        t = x.t().exp()
        return (t + y) * (x.sum() + y)

    step = trace_function(function, torch.ones(2, 3), torch.ones(3, 2))
    subject = subject_of(step)
    mul = next(index for index, item in enumerate(subject.items) if "aten.mul" in item.text)
    add = subject.items[mul].reads[0]
    graph = subject.candidate([add, mul]).graph
    assert graph is not None
    inputs = placeholders(graph)
    assert [tuple(node.meta["val"].shape) for node in inputs] == [(3, 2), (3, 2), (3, 2)]
    assert inputs[0].name == placeholders(step.module)[1].name
    assert all(node.meta["val"].is_contiguous() for node in inputs)
    assert names_of(results(graph)) == [subject.items[mul].name[1:]]


def test_what_no_kept_operation_reads_is_returned_once():
    def function(x):
        low, high = x.split(2, dim=1)
        return low + 1, high * 2

    step = trace_function(function, torch.ones(2, 4))
    subject = subject_of(step)
    texts = [item.text for item in subject.items]
    assert [("split" in texts[0]), ("add" in texts[1]), ("mul" in texts[2])] == [True] * 3
    assert subject.items[3].reads == (1,) and subject.items[3].is_result

    def returned(*keep: int) -> list[str]:
        graph = subject.candidate(keep).graph
        assert graph is not None
        return names_of(results(graph))

    low, high = (node.name for node in step.module.graph.nodes if node.target is operator.getitem)
    add, mul = (subject.items[index].name[1:] for index in (1, 2))
    assert returned(0) == [low, high]
    assert returned(0, 1) == [high, add]
    assert returned(0, 1, 3) == [add, high]
    assert returned(1, 4) == [add], "a result whose operation is not kept is not returned"
    assert returned(1, 2, 4) == [mul, add]


class TwoStores(torch.nn.Module):
    """Writes rows of a cache twice."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, 2))

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        self.cache.index_put_((rows,), x)
        self.cache.index_put_((rows + 1,), x * 2)
        return self.cache.sum(0)


def test_a_result_reuses_the_memory_of_what_it_is_a_version_of():
    step = trace_function(TwoStores(), torch.ones(2, 2), torch.tensor([0, 1]))
    subject = subject_of(step)
    stores = [index for index, item in enumerate(subject.items) if item.name.startswith("%index_put")]
    update = next(index for index, item in enumerate(subject.items) if "in the memory of" in item.text)
    assert len(stores) == 2

    def memories(*keep: int) -> list[tuple[str, str]]:
        candidate = subject.candidate(keep)
        assert candidate.graph is not None
        returned, inputs = results(candidate.graph), placeholders(candidate.graph)
        return [(returned[output].name, inputs[source].name) for output, source in candidate.aliases.items()]

    first, last = (subject.items[index].name[1:] for index in stores)
    (cache,) = {placeholders(step.module)[source].name for source in step.aliases.values()}
    assert memories(*stores, update) == [(last, cache)]
    assert memories(stores[1], update) == [(last, first)], "the older version stands where the cache was"
    assert memories(stores[1]) == [], "its result is not kept"
    assert memories(stores[0], update) == [], "nor is its operation"


def test_inputs_that_the_program_returns_are_returned():
    graph = fx.Graph()
    x, y = (graph.placeholder(name) for name in ("x", "y"))
    added = graph.call_function(torch.ops.aten.add.Tensor, (x, 1))
    x.meta["val"] = added.meta["val"] = torch.empty(2, device="meta")
    y.meta["val"] = torch.empty(3, device="meta")
    graph.output((y, added, y))
    subject = GraphSubject(fx.GraphModule(torch.nn.Module(), graph), {}, options_of("host"))
    assert [item.reads for item in subject.items] == [(), (), (0,), ()]
    part = subject.candidate([0, 3]).graph
    assert part is not None
    assert names_of(results(part)) == ["y", added.name]
    assert names_of(placeholders(part)) == ["x", "y"]


def test_constants_and_loops_go_where_they_are_used():
    table = torch.arange(4.0)

    def function(x):
        def condition(i, y):
            return i < 3

        def body(i, y):
            return i + 1, y * 2 + table

        _, y = while_loop(condition, body, (torch.tensor(0), x))
        return (y - table).exp()

    step = trace_function(function, torch.ones(4))
    subject, values = subject_of(step), eager_values(step)
    operations = [index for index, item in enumerate(subject.items) if not item.is_result]
    assert [subject.items[index].text.partition(" = ")[2].partition("(")[0] for index in operations] == [
        "while_loop",
        "aten.sub.Tensor",
        "aten.exp.default",
    ]
    for index in operations:
        graph = subject.candidate([index]).graph
        assert graph is not None
        assert_computes_its_part(graph, values)


def test_what_is_no_program_is_refused():
    subject = subject_of(trace_function(lambda x: x + 1, torch.ones(2)))
    with pytest.raises(GraphError, match="keep at least one"):
        subject.candidate([])
    with pytest.raises(GraphError, match="has none of number"):
        subject.candidate([0, 7])


@pytest.mark.slow
def test_bytes_are_the_same_in_every_process(tmp_path):
    steps = ["store key", "scaled", "chosen"]
    command = [sys.executable, graph_steps.__file__, *steps]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "7"}
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    here = graph_steps.digests_of(steps)
    assert done.stdout.split() == here
    assert len(here) > 10
