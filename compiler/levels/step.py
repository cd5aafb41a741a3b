"""A step as its target sees it: the graph after every pass, with the tensors it would be fed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from ...passes.context import PassContext, placeholders
from ...passes.pipeline import run_passes
from ..capture import GraphInput, capture


@dataclass(frozen=True)
class Step:
    """A functional graph and one tensor for each of its placeholders.

    ``carried`` names the dtype whose bits an integer placeholder carries.
    """

    module: fx.GraphModule
    inputs: tuple[Tensor, ...]
    carried: Mapping[fx.Node, torch.dtype]


def trace_step(model: nn.Module, inputs: Mapping[str, Tensor], target: str = "host") -> Step:
    """Capture one call of ``model`` with these keyword tensors and run the passes of ``target``; nothing is executed.

    Raises:
        CaptureError: the call is not one static graph.
        GraphError: the graph breaks an invariant of the lowering.
    """
    graph = capture(model, inputs)
    context = PassContext(target=target)
    run_passes(graph.module, context)
    nodes = placeholders(graph.module)
    return Step(
        module=graph.module,
        inputs=tuple(_fed(one, inputs, context.carriers.get(index)) for index, one in enumerate(graph.inputs)),
        carried={nodes[index]: graph.inputs[index].dtype for index in context.carriers},
    )


def _fed(one: GraphInput, inputs: Mapping[str, Tensor], carrier: torch.dtype | None) -> Tensor:
    tensor = inputs[one.qualified_name] if one.tensor is None else one.tensor
    return tensor.detach() if carrier is None else tensor.detach().view(carrier)
