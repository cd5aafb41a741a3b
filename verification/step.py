"""A step as its target sees it: the graph after every pass, with the tensors it would be fed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx, nn

from ..compiler.capture.capture import CapturedGraph, capture
from ..compiler.regions.cut import CutGraph
from ..compiler.regions.cut_graph import cut_graph
from ..compiler.regions.root_partition import RootPartition
from ..compiler.steps.pass_captured import pass_captured
from ..compiler.targets.table import find_target
from ..passes.carrier import carry
from ..passes.context import PassContext
from ..passes.observer import AfterPass


@dataclass(frozen=True)
class Step:
    """A functional graph and one tensor for each of its placeholders.

    Attributes:
        aliases: output index -> index of the input that it is the new version of.
        carried: index of an updated input -> the dtype whose bits it carries as an integer.
        stage_names: names of the stages that the graph's nodes are marked with.
        input_names: qualified names of the inputs.
    """

    module: fx.GraphModule
    inputs: tuple[Tensor, ...]
    aliases: Mapping[int, int]
    carried: Mapping[int, torch.dtype]
    stage_names: Sequence[str]
    input_names: Sequence[str]


def cut_steps(steps: Sequence[Step]) -> list[CutGraph]:
    """The regions that mode "regions" compiles of steps of one model, each a batch size.

    Where a region touches some rows of an updated input only, it takes these; the batch sizes share one partition.

    Raises:
        GraphError: a step cannot be cut.
    """
    cuts = [cut_graph(step.module, step.aliases, step.stage_names) for step in steps]
    partition = RootPartition()
    for step, cut in zip(steps, cuts, strict=True):
        partition = partition.joined(cut, step.input_names)
    return [partition.applied(cut, step.input_names) for step, cut in zip(steps, cuts, strict=True)]


def trace_step(model: nn.Module, inputs: Mapping[str, Tensor], target: str = "host") -> Step:
    """Capture one call of ``model`` with these keyword tensors and run the passes of ``target``; nothing is executed.

    Raises:
        CaptureError: the call is not one static graph.
        GraphError: the graph breaks an invariant of the lowering.
    """
    graph = capture(model, inputs)
    return pass_step(graph, tensors_of(graph, inputs), target)


def pass_step(
    graph: CapturedGraph,
    tensors: Sequence[Tensor],
    target: str = "host",
    after_pass: AfterPass = lambda record, module, context: None,
) -> Step:
    """Run the passes on ``graph`` in place; ``tensors`` are those behind its placeholders as captured."""
    context = pass_captured(graph, find_target(target), after_pass=after_pass).context
    return Step(
        module=graph.module,
        inputs=tuple(as_fed(tensors, context)),
        aliases=context.aliases,
        carried={index: graph.inputs[index].dtype for index in context.aliases.values() if index in context.carriers},
        stage_names=context.stage_names,
        input_names=[one.qualified_name for one in graph.inputs],
    )


def tensors_of(graph: CapturedGraph, inputs: Mapping[str, Tensor]) -> list[Tensor]:
    """The tensor behind each placeholder: the model's own, or one of the call's keyword tensors."""
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
