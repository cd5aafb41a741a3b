"""One batch size of a decode step as it was captured, with the checks that a program can replay it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from torch import nn

from ...errors import CaptureError
from ...passes.float8 import FORMATS
from ...runtime.slots import SlotSpec, padding_inputs
from ..capture.capture import CapturedGraph, capture


@dataclass(frozen=True)
class CapturedStep:
    """One batch size as it was captured and checked; ``seconds`` is how long that took."""

    size: int
    slots: tuple[SlotSpec, ...]
    graph: CapturedGraph
    seconds: float


def slots_of(model: nn.Module) -> tuple[SlotSpec, ...]:
    """The inputs that a model declares; raises CaptureError if it declares none."""
    slots: Any = getattr(model, "decode_slots", None)
    if not slots or not all(isinstance(slot, SlotSpec) for slot in slots):
        raise CaptureError(
            f"{type(model).__name__} declares no decode_slots: give it an attribute decode_slots with a SlotSpec for "
            "each argument of forward"
        )
    return tuple(slots)


def capture_step(model: nn.Module, size: int) -> CapturedStep:
    """Capture a step of ``size`` requests and check that programs can replay it.

    Raises:
        CaptureError: the step is not one static graph, reads tensors that nobody owns, or returns what programs cannot.
    """
    start, slots = time.perf_counter(), slots_of(model)
    graph = capture(model, padding_inputs(slots, size))
    _check_names(model, graph)
    _check_results(model, graph, size)
    return CapturedStep(size, slots, graph, time.perf_counter() - start)


def _check_names(model: nn.Module, graph: CapturedGraph) -> None:
    known = {name for name, _ in [*model.named_parameters(), *model.named_buffers()]}
    unknown = [one.qualified_name for one in graph.inputs if one.role != "slot" and one.qualified_name not in known]
    if unknown:
        raise CaptureError(
            f"{type(model).__name__} reads tensors {unknown} that it does not own: register them as buffers"
        )


def _check_results(model: nn.Module, graph: CapturedGraph, size: int) -> None:
    (output,) = graph.module.graph.find_nodes(op="output")
    shapes = [tuple(node.meta["val"].shape) for node in output.args[0]]
    if not shapes or any(shape[:1] != (size,) for shape in shapes):
        raise CaptureError(
            f"{type(model).__name__} returns tensors of shapes {shapes} for a batch of {size}: every result of a "
            f"decode step has a row for each request, [{size}, ...]"
        )
    float8 = [position for position, node in enumerate(output.args[0]) if node.meta["val"].dtype in FORMATS]
    if float8:
        raise CaptureError(
            f"{type(model).__name__} returns float8 values (results {float8}): programs return them as bytes, so "
            "return result.view(torch.uint8), or a wider type"
        )
