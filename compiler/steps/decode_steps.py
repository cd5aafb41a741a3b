"""A decode step as it is compiled: captured, checked, passed, cut into regions that take slices of cache roots.

Whoever compiles a step, dumps it, checks it, verifies it or bisects it asks here, so that all look at the same graphs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from ...errors import CaptureError
from ...passes.carrier import carry
from ...passes.context import PassContext
from ...passes.observer import AfterPass
from ...reporting import Say
from ...runtime.plan import GraphMode
from ..capture.capture import CapturedGraph
from ..regions.cut import CutGraph, Rows
from ..regions.cut_graph import cut_graph
from ..regions.root_partition import RootPartition
from .captured_step import CapturedStep, capture_step
from .pass_captured import pass_captured
from .pipeline import NamedTarget, PassedGraph


@dataclass(frozen=True)
class DecodeStep:
    """One batch size as it is compiled.

    Attributes:
        unsliced: the regions on whole cache roots.
        slices: rows of each updated input, by its name, as all batch sizes divide them.
        cut: the regions that are compiled: with these slices.
        slicing_s: seconds that it took to slice them.
    """

    mode: GraphMode
    captured: CapturedStep
    passed: PassedGraph
    unsliced: CutGraph
    slices: Mapping[str, tuple[Rows, ...]]
    cut: CutGraph
    slicing_s: float

    @property
    def size(self) -> int:
        """Requests of the step."""
        return self.captured.size

    @property
    def graph(self) -> CapturedGraph:
        """What was captured; the passes changed its module in place."""
        return self.captured.graph

    @property
    def input_names(self) -> list[str]:
        """Qualified names of the step's inputs."""
        return [one.qualified_name for one in self.graph.inputs]

    def fed(self, inputs: Mapping[str, Tensor]) -> list[Tensor]:
        """The tensors that programs of the step are given for a call with these keyword tensors."""
        return as_fed(tensors_of(self.graph, inputs), self.passed.context)


Observe = Callable[[CapturedStep], AfterPass]
"""Called with each step before its passes; what it returns is called with the graph as each pass left it."""


def observe_nothing(captured: CapturedStep) -> AfterPass:
    """Looks at no pass."""
    return lambda record, module, context: None


def decode_steps(
    model: nn.Module,
    sizes: Sequence[int],
    target: NamedTarget,
    mode: GraphMode,
    *,
    pass_limit: int | None = None,
    observe: Observe = observe_nothing,
    take: Callable[[DecodeStep], None] = lambda step: None,
    captured: Callable[[nn.Module, int], CapturedStep] = capture_step,
    say: Say = lambda line: None,
) -> list[DecodeStep]:
    """A ladder of batch sizes, largest first, as ``compile_decode`` compiles it for ``target``; no compiler is needed.

    In mode "regions" all sizes share one division of cache roots into slices, so a step depends on the ladder.

    Args:
        pass_limit: the ``limit`` of ``pass_graph``.
        take: called with each step as soon as it is known, and again if a smaller one changed its slices.
        captured: gives the captured step of a size.

    Raises:
        CaptureError: a step is not one static graph, or returns what programs cannot return.
        ConfigError: nothing is known about the target.
        GraphError: a graph breaks an invariant of the lowering.
    """
    steps: list[DecodeStep] = []
    partition = RootPartition()
    for size in sorted(set(sizes), reverse=True):
        step = _passed_step(model, captured(model, size), target, mode, pass_limit, observe)
        if mode == "regions":
            partition = partition.joined(step.unsliced, step.input_names)
        steps.append(_sliced(step, partition))
        take(steps[-1])
        say(f"batch {size}: captured, {step.passed.nodes} nodes in {len(step.unsliced.regions)} regions")
    # A smaller size may touch rows together that the slices of a larger one had apart.
    for index, step in enumerate(steps):
        if step.slices != partition.slices():
            steps[index] = _sliced(step, partition)
            take(steps[index])
    return steps


def decode_step(
    model: nn.Module, size: int, target: NamedTarget, mode: GraphMode, *, pass_limit: int | None = None
) -> DecodeStep:
    """The step that is compiled if ``size`` is the only batch size; see ``decode_steps``."""
    (step,) = decode_steps(model, [size], target, mode, pass_limit=pass_limit)
    return step


def tensors_of(graph: CapturedGraph, inputs: Mapping[str, Tensor]) -> list[Tensor]:
    """The tensor behind each placeholder as captured: the model's own, or one of a call's keyword tensors."""
    owned = [inputs[one.qualified_name] if one.tensor is None else one.tensor for one in graph.inputs]
    return [tensor.detach() for tensor in owned]


def as_fed(tensors: Sequence[Tensor], context: PassContext) -> list[Tensor]:
    """Tensors in the types and arrangements that the passes asked for; one of equal type or width shares memory."""
    fed = list(tensors)
    for index, carrier in context.carriers.items():
        fed[index] = carry(fed[index], carrier)
    for index, layout in context.layouts.items():
        fed[index] = layout.arrange(fed[index])
    return fed


def _passed_step(
    model: nn.Module,
    captured: CapturedStep,
    target: NamedTarget,
    mode: GraphMode,
    pass_limit: int | None,
    observe: Observe,
) -> DecodeStep:
    after_pass = observe(captured)
    passed = pass_captured(captured.graph, target, captured.slots, after_pass, pass_limit)
    _check_result_types(model, passed)
    context = passed.context
    unsliced = cut_graph(passed.module, context.aliases, context.stage_names, whole=mode == "whole")
    return DecodeStep(mode, captured, passed, unsliced, {}, unsliced, 0.0)


def _sliced(step: DecodeStep, partition: RootPartition) -> DecodeStep:
    start = time.perf_counter()
    cut = partition.applied(step.unsliced, step.input_names)
    return replace(step, slices=partition.slices(), cut=cut, slicing_s=time.perf_counter() - start)


def _check_result_types(model: nn.Module, passed: PassedGraph) -> None:
    """Programs for targets without int64 return int32 in its place."""
    wide = [position for position, dtype in passed.context.result_dtypes.items() if dtype is torch.int64]
    if wide:
        raise CaptureError(
            f"{type(model).__name__} returns int64 values (results {wide}), which {passed.context.target} has no type "
            "for: return result.to(torch.int32)"
        )
