"""Calls of models that declare no slots, as steps with what they are fed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from deepinfer_neuron.compiler.capture.capture import CapturedGraph, capture
from deepinfer_neuron.compiler.steps.captured_step import CapturedStep
from deepinfer_neuron.compiler.steps.decode_steps import DecodeStep, Observe, decode_steps, observe_nothing
from deepinfer_neuron.runtime.slots import SlotSpec
from deepinfer_neuron.verification.pass_comparison import PassComparison, PassObserver, compare_cut
from deepinfer_neuron.verification.step import FedStep, feed
from torch import Tensor, nn

SIZE = 1
"""Stands for the batch size, which a call without slots does not have."""


@dataclass(frozen=True)
class NamedTarget:
    """A target of which only the name is asked."""

    name: str


def step_of(
    graph: CapturedGraph,
    target: str = "host",
    slots: Sequence[SlotSpec] = (),
    observe: Observe = observe_nothing,
) -> DecodeStep:
    """The step of a captured call, in mode "regions"."""
    captured = CapturedStep(SIZE, tuple(slots), graph, 0.0)
    (step,) = decode_steps(
        nn.Identity(), [SIZE], NamedTarget(target), "regions", observe=observe, captured=lambda model, size: captured
    )
    return step


def trace_call(model: nn.Module, inputs: Mapping[str, Tensor], target: str = "host") -> FedStep:
    """A call of ``model`` with these keyword tensors, after the passes of the target."""
    return feed(step_of(capture(model, inputs), target), inputs)


def compare_call(graph: CapturedGraph, inputs: Mapping[str, Tensor]) -> tuple[FedStep, list[PassComparison]]:
    """A captured call, and its graph after every pass and the cut compared with what was captured."""
    observer = PassObserver({SIZE: inputs})
    step = feed(step_of(graph, observe=observer), inputs)
    return step, [*observer.comparisons[SIZE], compare_cut(step)]
