"""One batch size of a decode step, captured, passed and cut, without any compiler."""

from __future__ import annotations

import torch
from torch import nn

from ...runtime.plan import GraphMode
from ..capture.capture import capture
from ..regions.cut import CutGraph
from ..regions.cut_graph import cut_graph
from ..regions.root_partition import RootPartition
from .decode_steps import slots_of
from .pass_captured import pass_captured
from .pipeline import NamedTarget


def cut_step(
    model: nn.Module, batch_size: int, target: NamedTarget, mode: GraphMode, pass_limit: int | None = None
) -> CutGraph:
    """The regions that a step would be compiled as, if this were its only batch size.

    ``pass_limit`` is the ``limit`` of ``pass_graph``.

    Raises:
        CaptureError: the step is not one static graph.
        ConfigError: nothing is known about the target.
        GraphError: the graph breaks an invariant of the lowering.
    """
    slots = slots_of(model)
    examples = {
        spec.name: torch.full((batch_size, *spec.row_shape), spec.pad_value, dtype=spec.dtype) for spec in slots
    }
    graph = capture(model, examples)
    passed = pass_captured(graph, target, slots, limit=pass_limit)
    context = passed.context
    cut = cut_graph(passed.module, context.aliases, context.stage_names, whole=mode == "whole")
    if mode == "whole":
        return cut
    names = [one.qualified_name for one in graph.inputs]
    return RootPartition().joined(cut, names).applied(cut, names)
