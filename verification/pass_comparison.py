"""Level 1: the graph after every pass, and its regions one after another, in eager PyTorch: the same bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor, fx

from ..compiler.regions.cut import StepInput, StepValue
from ..compiler.steps.captured_step import CapturedStep
from ..compiler.steps.decode_steps import as_fed, tensors_of
from ..passes.carrier import carry
from ..passes.context import PassContext
from ..passes.observer import AfterPass, PassRecord
from .distance import Difference, difference
from .observed import run_observed
from .step import FedStep
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


class PassObserver:
    """Compares the graph of each step after every pass, for a call with the keyword tensors that a batch size has.

    The tensors and the model's own stay as they are.
    """

    def __init__(self, inputs: Mapping[int, Mapping[str, Tensor]]):
        self._inputs = inputs
        self.comparisons: dict[int, list[PassComparison]] = {size: [] for size in inputs}

    def __call__(self, captured: CapturedStep) -> AfterPass:
        """What ``decode_steps`` asks an observer for."""
        graph = captured.graph
        tensors = tensors_of(graph, self._inputs[captured.size])
        updated = [index for index, one in enumerate(graph.inputs) if one.role == "kv"]
        expected = _run_captured(graph.module, tensors, updated)

        def compare(record: PassRecord, module: fx.GraphModule, context: PassContext) -> None:
            actual = _run_passed(module, context, tensors, updated)
            self.comparisons[captured.size].append(_judge(record.name, record.changed, actual, expected))

        return compare


def compare_cut(step: FedStep) -> PassComparison:
    """Interpret each region by itself, and write what it updates over its memory before the next one starts."""
    return _judge(CUT, len(step.cut.regions), _run_cut(step), run_observed(step.module, step.inputs))


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


def _run_cut(step: FedStep) -> list[Tensor]:
    """Outputs in the order of the step's graph."""
    memory = StepMemory(step.inputs)
    for region in step.cut.regions:
        memory.run(region)
    results = [StepValue(name) for name in step.cut.results]
    return list(map(memory.read, [*results, *map(StepInput, step.aliases.values())]))


def _with_copies(tensors: Sequence[Tensor], updated: Sequence[int]) -> list[Tensor]:
    memory = list(tensors)
    for index in updated:
        memory[index] = memory[index].clone()
    return memory


def _judge(name: str, changed: int, actual: Sequence[Tensor], expected: Sequence[Tensor]) -> PassComparison:
    pairs = zip(actual, expected, strict=True)
    found = sum((difference(one, other) for one, other in pairs), Difference())
    return PassComparison(name, changed, found.elements, found.mismatched)
