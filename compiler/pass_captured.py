"""Run the passes on a captured step with what its tensors tell about its inputs."""

from __future__ import annotations

from collections.abc import Hashable

import torch

from ..passes.observer import AfterPass
from ..runtime.weights import holds_exactly
from .capture import CapturedGraph, GraphInput
from .pipeline import PassedGraph, pass_graph
from .targets.base import Target


def pass_captured(
    graph: CapturedGraph, target: Target, after_pass: AfterPass = lambda record, module, context: None
) -> PassedGraph:
    """Run the passes on ``graph.module`` in place; see ``pass_graph``."""

    def holds_bfloat16(position: int) -> bool:
        tensor = graph.inputs[position].tensor
        return tensor is not None and holds_exactly(tensor, torch.bfloat16)

    def is_weight(position: int) -> bool:
        return graph.inputs[position].role in {"param", "buffer"}

    input_keys = list(map(_memory_key, graph.inputs))
    return pass_graph(graph.module, target, input_keys, holds_bfloat16, is_weight, after_pass)


def _memory_key(one: GraphInput) -> Hashable:
    """Equal for inputs that are the same memory seen the same way."""
    return one.name if one.tensor is None else (one.tensor.data_ptr(), one.tensor.dtype, one.shape, one.stride)
