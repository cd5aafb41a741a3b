"""Level 1: the graph after every pass, and its regions one after another, in eager PyTorch: the same bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, fx

from ..compiler.capture.capture import CapturedGraph
from ..compiler.regions.cut import CutGraph
from ..passes.carrier import carry
from ..passes.context import PassContext
from ..passes.observer import PassRecord
from .distance import Difference, difference
from .observed import run_observed
from .step import Step, as_fed, pass_step, tensors_of
from .step_memory import StepMemory

CUT = "cut into regions"
"""Stands in the list of passes for the cut."""


@dataclass(frozen=True)
class PassComparison:
    """A pass: how many places it changed, and elements of results and updated inputs with any differing bit."""

    name: str
    changed: int
    elements: int
    mismatched: int


def compare_passes(
    graph: CapturedGraph, inputs: Mapping[str, Tensor], target: str = "host"
) -> tuple[Step, list[PassComparison]]:
    """Run the passes on a captured call with these keyword tensors, and interpret the graph after each.

    The tensors and the model's own stay as they are.

    Raises:
        GraphError: the graph breaks an invariant of the lowering.
    """
    tensors = tensors_of(graph, inputs)
    updated = [index for index, one in enumerate(graph.inputs) if one.role == "kv"]
    expected = _run_captured(graph.module, tensors, updated)
    comparisons: list[PassComparison] = []

    def compare(record: PassRecord, module: fx.GraphModule, context: PassContext) -> None:
        actual = _run_passed(module, context, tensors, updated)
        comparisons.append(_judge(record.name, record.changed, actual, expected))

    return pass_step(graph, tensors, target, compare), comparisons


def compare_cut(step: Step, cut: CutGraph) -> PassComparison:
    """Interpret each region by itself, and write what it updates over its memory before the next one starts."""
    return _judge(CUT, len(cut.regions), _run_cut(cut, step), run_observed(step.module, step.inputs))


def _run_captured(module: fx.GraphModule, tensors: Sequence[Tensor], updated: Sequence[int]) -> list[Tensor]:
    """Results, and the updated tensors: the graph itself writes to them."""
    memory = _with_copies(tensors, updated)
    return [*run_observed(module, memory), *(memory[index] for index in updated)]


def _run_passed(
    module: fx.GraphModule, context: PassContext, tensors: Sequence[Tensor], updated: Sequence[int]
) -> list[Tensor]:
    """The same for a graph on its way through the passes, some of whose outputs may be new versions of inputs."""
    memory = _with_copies(tensors, updated)
    fed = as_fed(memory, context)
    outputs = [output.clone() for output in run_observed(module, fed)]
    for position, dtype in context.result_dtypes.items():
        outputs[position] = carry(outputs[position], dtype)
    for position, source in context.aliases.items():
        fed[source].copy_(outputs[position])
    return [*outputs[: len(outputs) - len(context.aliases)], *(memory[index] for index in updated)]


def _run_cut(cut: CutGraph, step: Step) -> list[Tensor]:
    """Outputs in the order of the step's graph."""
    memory = StepMemory(step.inputs)
    for region in cut.regions:
        results = run_observed(region.module, list(map(memory.read, region.inputs)))
        # All first: a result may be a view of memory that another one is written to.
        for place, result in zip(region.outputs, [one.clone() for one in results], strict=True):
            memory.write(place, result)
    return list(map(memory.read, [*cut.results, *step.aliases.values()]))


def _with_copies(tensors: Sequence[Tensor], updated: Sequence[int]) -> list[Tensor]:
    memory = list(tensors)
    for index in updated:
        memory[index] = memory[index].clone()
    return memory


def _judge(name: str, changed: int, actual: Sequence[Tensor], expected: Sequence[Tensor]) -> PassComparison:
    pairs = zip(actual, expected, strict=True)
    found = sum((difference(one, other) for one, other in pairs), Difference())
    return PassComparison(name, changed, found.elements, found.mismatched)
