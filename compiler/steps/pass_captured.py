"""Run the passes on a captured step with what its tensors tell about its inputs."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import torch

from ...passes.interval import Interval
from ...passes.observer import AfterPass
from ...runtime.slots import SlotSpec
from ...runtime.weights import holds_exactly
from ..capture.capture import CapturedGraph, GraphInput
from .pipeline import NamedTarget, PassedGraph, pass_graph


def pass_captured(
    graph: CapturedGraph,
    target: NamedTarget,
    slots: Sequence[SlotSpec] = (),
    after_pass: AfterPass = lambda record, module, context: None,
    limit: int | None = None,
) -> PassedGraph:
    """Run the passes on ``graph.module`` in place; see ``pass_graph``. ``slots`` tell how large inputs can be."""
    maxima = {spec.name: spec.maximum for spec in slots}

    def holds_bfloat16(position: int) -> bool:
        tensor = graph.inputs[position].tensor
        return tensor is not None and holds_exactly(tensor, torch.bfloat16)

    def is_weight(position: int) -> bool:
        return graph.inputs[position].role in {"param", "buffer"}

    def value_range(position: int) -> Interval | None:
        one = graph.inputs[position]
        maximum = maxima.get(one.qualified_name) if one.role == "slot" else None
        if maximum is not None:
            return Interval(0, maximum)
        if one.tensor is None or one.role == "kv" or one.dtype not in (torch.int32, torch.int64):
            return None
        return Interval.of_tensor(one.tensor)

    input_keys = list(map(_memory_key, graph.inputs))
    return pass_graph(graph.module, target, input_keys, holds_bfloat16, is_weight, value_range, after_pass, limit)


def _memory_key(one: GraphInput) -> Hashable:
    """Equal for inputs that are the same memory seen the same way."""
    return one.name if one.tensor is None else (one.tensor.data_ptr(), one.tensor.dtype, one.shape, one.stride)
