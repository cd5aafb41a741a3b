"""A graph whose operators without a lowering run in eager PyTorch, between the programs of all others."""

from __future__ import annotations

import copy
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx, nn
from torch._dynamo.utils import counters
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._pytree import tree_leaves

from ...errors import DeepInferNeuronError
from ...passes.locations import source_line
from ..lowering.decompose import signature

aten = torch.ops.aten

Program = Callable[[list[Any]], Sequence[Any]]


@dataclass(frozen=True)
class Parts:
    """How a graph is run: the graph of programs and eager operators, and what it does to its inputs.

    Attributes:
        module: gives the results and then the new values of the updated inputs.
        updated: the positions of the updated inputs.
        eager: the operators that run in eager PyTorch, each with the line that called it.
    """

    module: fx.GraphModule
    updated: tuple[int, ...]
    eager: tuple[str, ...]


def split_graph(
    module: fx.GraphModule,
    lower: Callable[[fx.GraphModule], object],
    compile_part: Callable[[fx.GraphModule], Program],
) -> Parts:
    """Compile what can be lowered of a functional aten graph, whose inputs it may update by trailing ``copy_`` nodes.

    Args:
        lower: raises a DeepInferNeuronError for a graph that cannot be lowered; may change the graph.
        compile_part: makes a program of a graph; may change the graph.
    """
    parts = fx.GraphModule(module, copy.deepcopy(module.graph))
    updated = _return_updates(parts.graph)
    lowerable = _Lowerable(lower)
    eager = [node for node in parts.graph.nodes if node.op == "call_function" and not lowerable.takes(node)]
    partitioner = CapabilityBasedPartitioner(parts, lowerable, allows_single_node_partition=True)
    parts = partitioner.partition_and_fuse(prefix="program_")
    for node in parts.graph.find_nodes(op="call_module"):
        parts.add_submodule(node.target, _part(parts.get_submodule(node.target), compile_part))
    parts.recompile()
    return Parts(parts, updated, tuple(_described(node) for node in eager if node.target is not operator.getitem))


class PartsFunction:
    """Calls the parts of a graph; takes the inputs as one list, which it empties."""

    def __init__(self, parts: Parts):
        self._boxed_call = True
        self._parts = parts

    def __call__(self, arguments: list[Any]) -> list[Any]:
        """Run programs and eager operators on ``arguments``."""
        updated = [arguments[position] for position in self._parts.updated]
        results = list(self._parts.module(*arguments))
        arguments.clear()
        counters["deepinfer_neuron"]["operators_run_in_eager"] += len(self._parts.eager)
        first_update = len(results) - len(updated)
        for tensor, value in zip(updated, results[first_update:], strict=True):
            tensor.copy_(value)
        return results[:first_update]


def _part(graph: nn.Module, compile_part: Callable[[fx.GraphModule], Program]) -> nn.Module:
    assert isinstance(graph, fx.GraphModule)
    (output,) = graph.graph.find_nodes(op="output")
    returns_many = isinstance(output.args[0], (tuple, list))
    return _Part(compile_part(graph), returns_many)


class _Part(nn.Module):
    """A program in the place of the part of a graph that it was made of."""

    def __init__(self, program: Program, returns_many: bool):
        super().__init__()
        self._program = program
        self._returns_many = returns_many

    def forward(self, *inputs: Any) -> Any:
        results = self._program(list(inputs))
        return results if self._returns_many else results[0]


class _Lowerable(OperatorSupportBase):
    """Which nodes can be lowered: those that can be on their own."""

    def __init__(self, lower: Callable[[fx.GraphModule], object]):
        self._lower = lower
        self._known: dict[Any, bool] = {}

    def is_node_supported(self, submodules: Mapping[str, nn.Module], node: fx.Node) -> bool:
        """Whether the node becomes part of a program."""
        return node.op == "call_function" and self.takes(node)

    def takes(self, node: fx.Node) -> bool:
        """Whether a call, or the call whose result it takes, can be lowered."""
        if node.target is operator.getitem:
            source = node.args[0]
            return isinstance(source, fx.Node) and source.op == "call_function" and self.takes(source)
        values = tree_leaves([one.meta.get("val") for one in (node, *node.all_input_nodes)])
        if not all(isinstance(value, Tensor) for value in values):
            return False
        key = signature(node)
        if key not in self._known:
            self._known[key] = self._can_be_lowered(node)
        return self._known[key]

    def _can_be_lowered(self, node: fx.Node) -> bool:
        try:
            self._lower(_graph_of(node))
        except DeepInferNeuronError:
            return False
        return True


def _return_updates(graph: fx.Graph) -> tuple[int, ...]:
    """Make the new values of updated inputs results of the graph; returns the positions of these inputs."""
    placeholders = graph.find_nodes(op="placeholder")
    (output,) = graph.find_nodes(op="output")
    updates = {}
    for node in graph.find_nodes(op="call_function", target=aten.copy_.default):
        updates[placeholders.index(node.args[0])] = node.args[1]
        node.replace_all_uses_with(node.args[1])
        graph.erase_node(node)
    output.args = ((*output.args[0], *updates.values()),)
    return tuple(updates)


def _graph_of(node: fx.Node) -> fx.GraphModule:
    """A graph that calls the node's operator alone."""
    graph = fx.Graph()
    copies = {}
    for source in node.all_input_nodes:
        copies[source] = graph.placeholder(source.name)
        copies[source].meta = dict(source.meta)
    call = graph.node_copy(node, copies.__getitem__)
    value = node.meta["val"]
    if isinstance(value, Tensor):
        results = [call]
    else:
        results = [graph.call_function(operator.getitem, (call, index)) for index in range(len(value))]
        for result, one in zip(results, value, strict=True):
            result.meta["val"] = one
    graph.output(tuple(results))
    return fx.GraphModule(nn.Module(), graph)


def _described(node: fx.Node) -> str:
    line = source_line(node)
    return f"{node.target} at {line}" if line else str(node.target)
