"""Interprets a step that was cut into regions, as a device executes it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from deepinfer_neuron.compiler.capture.capture import CapturedGraph, capture
from deepinfer_neuron.compiler.regions.cut import CutGraph, Place, StepValue
from deepinfer_neuron.compiler.regions.cut_graph import cut_graph
from deepinfer_neuron.passes.context import PassContext
from deepinfer_neuron.passes.pipeline import run_passes
from torch import Tensor, fx


def passed(function, inputs: Sequence[Tensor]) -> tuple[CapturedGraph, PassContext]:
    """The graph of a function or module after all passes."""
    graph = capture(function, inputs)
    context = PassContext()
    run_passes(graph.module, context)
    return graph, context


def cut_at_stages(graph: CapturedGraph, context: PassContext, whole: bool = False) -> CutGraph:
    """The regions of a graph that has been through the passes."""
    return cut_graph(graph.module, context.aliases, context.stage_names, whole)


def memories(graph: CapturedGraph, context: PassContext, inputs: Sequence[Tensor]) -> list[Tensor]:
    """A copy of what each placeholder is fed."""
    given_inputs = iter(inputs)
    tensors = [next(given_inputs) if one.tensor is None else one.tensor for one in graph.inputs]
    return [tensor.clone().view(context.carriers.get(i, tensor.dtype)) for i, tensor in enumerate(tensors)]


def run_regions(cut: CutGraph, memory: list[Tensor]) -> list[Tensor]:
    """Execute as a device does: an aliased output is written over its input before the next region starts."""
    values: dict[str, Tensor] = {}

    def at(place: Place) -> Tensor:
        if isinstance(place, StepValue):
            return values[place.name]
        tensor = memory[place.index]
        return tensor if place.rows is None else tensor.narrow(0, place.rows.first, place.rows.count)

    for region in cut.regions:
        results = [one.clone() for one in fx.Interpreter(region.module).run(*map(at, region.inputs))]
        for place, result in zip(region.outputs, results, strict=True):
            if isinstance(place, StepValue):
                values[place.name] = result
            else:
                at(place).copy_(result)
    return [values[name] for name in cut.results]


def run_whole(module: fx.GraphModule, context: PassContext, memory: list[Tensor]) -> list[Tensor]:
    """Execute the graph that was not cut."""
    results = [result.clone() for result in fx.Interpreter(module).run(*memory)]
    for position, source in context.aliases.items():
        memory[source].copy_(results[position])
    return results[: len(results) - len(context.aliases)]


def assert_same_bits(graph: CapturedGraph, context: PassContext, cut: CutGraph, inputs: Sequence[Tensor]) -> None:
    """Compare every result and every input's memory after the regions with those after the whole graph."""
    first, second = memories(graph, context, inputs), memories(graph, context, inputs)
    expected = run_whole(graph.module, context, first)
    actual = run_regions(cut, second)
    for left, right in zip([*actual, *second], [*expected, *first], strict=True):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)
    for region in cut.regions:
        assert region.outputs
        assert len(region.module.graph.find_nodes(op="placeholder")) == len(region.inputs) == len(set(region.inputs))
