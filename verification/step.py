"""A decode step as it is compiled, with the tensors that one call feeds it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, fx

from ..compiler.regions.cut import CutGraph
from ..compiler.steps.decode_steps import DecodeStep


@dataclass(frozen=True)
class FedStep:
    """A functional graph, its regions, and one tensor for each placeholder of the graph.

    Attributes:
        aliases: output index -> index of the input that it is the new version of.
        carried: index of an updated input -> the dtype whose bits it carries as an integer.
    """

    module: fx.GraphModule
    inputs: tuple[Tensor, ...]
    aliases: Mapping[int, int]
    carried: Mapping[int, torch.dtype]
    cut: CutGraph


def feed(step: DecodeStep, inputs: Mapping[str, Tensor]) -> FedStep:
    """``step`` with what a call with these keyword tensors gives it."""
    context = step.passed.context
    return FedStep(
        module=step.passed.module,
        inputs=tuple(step.fed(inputs)),
        aliases=context.aliases,
        carried={i: step.graph.inputs[i].dtype for i in context.aliases.values() if i in context.carriers},
        cut=step.cut,
    )
