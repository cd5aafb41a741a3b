"""Level 1 for the cut: regions, interpreted one after another, give every bit of the whole graph."""

from __future__ import annotations

from collections.abc import Sequence

import networkx
import pytest
import torch
from deepinfer_neuron.compiler.regions.canonical import canonical_digest
from deepinfer_neuron.compiler.regions.cut import CutGraph, Place, Region, StepInput, StepValue
from deepinfer_neuron.compiler.regions.region_order import check_order, region_graph
from deepinfer_neuron.errors import GraphError
from deepinfer_neuron.passes.context import STAGE, output_node
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from hypothesis import given, settings
from hypothesis import strategies as st
from region_runs import assert_same_bits, cut_at_stages, passed
from torch import fx, nn

ROWS, WIDTH = 6, 4


def cut_with_same_bits(function, inputs: Sequence[torch.Tensor]) -> CutGraph:
    """The regions of a function, which give every bit of the whole graph."""
    graph, context = passed(function, inputs)
    cut = cut_at_stages(graph, context)
    assert_same_bits(graph, context, cut, inputs)
    return cut


class Caches(nn.Module):
    """Stages made of the given steps, on two updated tensors of bfloat16 and float32."""

    def __init__(self, stages: Sequence[Sequence[int]]):
        super().__init__()
        self.stages = stages
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("keys", torch.randn(ROWS, WIDTH, generator=generator).bfloat16())
        self.register_buffer("sums", torch.randn(ROWS, WIDTH, generator=generator))

    def forward(self, x, rows):
        values = [x, x * 0.5]
        snapshots: list[torch.Tensor] = []
        for number, stage in enumerate(self.stages):
            for step in stage:
                values.append(self.do(step, values, snapshots, rows))
            values[-2:] = stage_boundary(f"stage {number}", *values[-2:])
        return values[-1], values[len(values) // 2]

    def do(self, step, values, snapshots, rows):
        new, old = values[-1], values[len(values) // 2]
        if step == 0:
            return new + old
        if step == 1:
            self.keys.index_put_((rows,), new.bfloat16())
            return self.keys[rows].float() - old
        if step == 2:
            self.sums.view(2, ROWS // 2, WIDTH)[1].add_(new[:1])
            return old * 2
        if step == 3:
            return new + self.sums[rows] * self.keys[rows].float()
        if step == 4:
            self.sums.mul_(0.5)
            return torch.cat((new[:1], old[1:]))
        if step == 5:
            return new * torch.arange(WIDTH) + torch.zeros(1)
        if step == 6:
            before = self.sums[rows]
            self.sums.index_put_((rows,), old)
            return before.sin() + new
        if step == 7:
            self.sums[1:3].copy_(new)
            return new
        # A snapshot is an old version that later steps may still read.
        snapshots.append(self.sums.clone())
        return new + snapshots[0][rows]


STAGES = st.lists(st.lists(st.integers(0, 8), max_size=3), min_size=1, max_size=5)


@settings(max_examples=10, deadline=None)
@given(STAGES)
def test_random_graphs_with_boundaries_anywhere_keep_every_bit(stages):
    cut_with_same_bits(Caches(stages), [torch.randn(2, WIDTH), torch.tensor([1, 4])])


@pytest.mark.slow
@settings(max_examples=100, deadline=None)
@given(STAGES)
def test_many_random_graphs_with_boundaries_anywhere_keep_every_bit(stages):
    cut_with_same_bits(Caches(stages), [torch.randn(2, WIDTH), torch.tensor([1, 4])])


def test_a_boundary_after_every_node():
    def step(x):
        for number, function in enumerate((torch.sin, torch.cos, torch.exp, torch.neg)):
            (x,) = stage_boundary(f"{number}", function(x))
        return x

    cut = cut_with_same_bits(step, [torch.randn(3)])
    assert [region.name for region in cut.regions] == ["0", "1", "2", "3"]


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 8), max_size=4), st.lists(st.integers(0, 4), min_size=1, max_size=60))
def test_stage_numbers_in_any_order_keep_every_bit(steps, marks):
    inputs = [torch.randn(2, WIDTH), torch.tensor([1, 4])]
    graph, context = passed(Caches([steps]), inputs)
    for number, node in enumerate(graph.module.graph.nodes):
        node.meta[STAGE] = marks[number % len(marks)]
    context.stage_names[:] = "abcde"
    assert_same_bits(graph, context, cut_at_stages(graph, context), inputs)


def test_a_stage_that_only_stores_returns_the_cache_alone():
    class Storing(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.randn(ROWS, WIDTH))

        def forward(self, x, rows):
            x, y = stage_boundary("start", x.sin(), x.cos())
            self.cache.index_put_((rows,), x)
            x, y = stage_boundary("store", x, y)
            return x + y

    start, store, end = cut_with_same_bits(Storing(), [torch.randn(2, WIDTH), torch.tensor([1, 4])]).regions
    assert store.aliases == {0: store.inputs.index(store.outputs[0])}
    assert set(end.inputs) == set(start.outputs)


def test_a_stage_whose_values_nobody_reads_is_no_region():
    def step(x):
        (x,) = stage_boundary("first", x.sin())
        stage_boundary("unread", x.cos())
        return x.exp()

    assert [region.name for region in cut_with_same_bits(step, [torch.randn(3)]).regions] == ["first", "end"]


def test_no_boundary_and_whole_mode_give_one_region():
    assert len(cut_with_same_bits(lambda x: x.sin() + 1, [torch.randn(3)]).regions) == 1

    def step(x):
        (x,) = stage_boundary("a", x.sin())
        return x.cos()

    (region,) = cut_at_stages(*passed(step, [torch.randn(3)]), whole=True).regions
    assert region.name == "whole"


def test_a_stage_that_computes_nothing_is_no_region():
    def step(x):
        (y,) = stage_boundary("first", x.sin())
        (y,) = stage_boundary("nothing", y)
        return y, x

    cut = cut_with_same_bits(step, [torch.randn(3)])
    assert [region.name for region in cut.regions] == ["first"]


def test_constants_are_made_where_they_are_used_and_weights_are_inputs():
    weight = nn.Parameter(torch.randn(4), requires_grad=False)

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = weight

        def forward(self, x):
            ramp = torch.arange(4) + 1
            (x,) = stage_boundary("first", x * ramp * self.weight)
            return x * ramp * self.weight

    first, second = cut_with_same_bits(Scaled(), [torch.randn(2, 4)]).regions
    assert [type(place) for place in first.inputs] == [StepInput, StepInput]
    assert [type(place) for place in second.inputs] == [StepValue, StepInput]
    assert canonical_digest(first) == canonical_digest(second)


def test_an_old_version_is_never_carried_over_its_update():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.randn(ROWS, WIDTH))

        def forward(self, x, rows):
            before = self.cache.clone()
            self.cache.index_put_((rows,), x)
            (x,) = stage_boundary("store", x + 1)
            (x,) = stage_boundary("use", x + before[rows])
            return x + self.cache[rows]

    cut = cut_with_same_bits(Late(), [torch.randn(2, WIDTH), torch.tensor([1, 4])])
    assert [region.name for region in cut.regions] == ["store+use", "end"]


def test_two_stores_reach_one_memory_in_order():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("cache", torch.randn(ROWS, WIDTH))

        def forward(self, x, rows):
            self.cache.view(ROWS // 2, 2, WIDTH).index_put_((rows,), x)
            (y,) = stage_boundary("first", self.cache[0] + 1)
            self.cache.index_put_((rows,), x[:, 0] + y)
            return self.cache[1] + y

    cut = cut_with_same_bits(Twice(), [torch.randn(2, 2, WIDTH), torch.tensor([0, 2])])
    first, second = cut.regions
    (root,) = {place for region in cut.regions for place in region.outputs if isinstance(place, StepInput)}
    assert root in first.inputs and root in second.inputs
    for region in cut.regions:
        ((output, source),) = region.aliases.items()
        assert region.outputs[output] == region.inputs[source] == root
    assert list(region_graph(cut.regions).edges) == [(0, 1)]


def region(name: str, inputs: Sequence[int | str], outputs: Sequence[int | str]) -> Region:
    return Region(name, fx.GraphModule({}, fx.Graph()), tuple(map(place_of, inputs)), tuple(map(place_of, outputs)))


def place_of(short: int | str) -> Place:
    return StepValue(short) if isinstance(short, str) else StepInput(short)


def test_the_region_graph_orders_reads_before_the_update():
    graph = region_graph([region("read", [0], ["a"]), region("store", [0, "a"], [0]), region("after", [0], ["b"])])
    assert sorted(graph.edges) == [(0, 1), (1, 2)]
    assert networkx.is_directed_acyclic_graph(graph)
    check_order(graph)


def test_a_value_that_is_made_too_late_is_refused():
    with pytest.raises(GraphError, match="reads 'b', which no earlier region makes"):
        region_graph([region("first", ["b"], ["a"]), region("second", ["a"], ["b"])])
    with pytest.raises(GraphError, match="out of order"):
        check_order(networkx.DiGraph([(1, 0)]))


def test_every_output_of_the_graph_is_a_result():
    def step(x):
        (y,) = stage_boundary("first", x.sin())
        return y, y.cos(), x, y

    graph, context = passed(step, [torch.randn(3)])
    cut = cut_at_stages(graph, context)
    assert cut.results == tuple(node.name for node in output_node(graph.module).args[0])
    cut_with_same_bits(step, [torch.randn(3)])
