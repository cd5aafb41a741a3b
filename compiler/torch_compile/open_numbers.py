"""Sizes and numbers that Dynamo left open in a graph, and the graph of a call in which all are known.

Dynamo makes a size or an int that changed an input of its own, and a float that changed a float64 tensor without
dimensions whose ``item()`` the graph takes.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_arg

_SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)


@dataclass(frozen=True)
class OpenNumbers:
    """What of a graph is known only when it is called.

    Attributes:
        symbolic: whether an input is a number, or has a size or stride that is.
        read: the inputs whose value the graph takes as a number.
    """

    symbolic: bool
    read: frozenset[int]

    def __bool__(self) -> bool:
        return self.symbolic or bool(self.read)

    def of_call(self, inputs: Sequence[Any]) -> Hashable:
        """The layouts of all tensors, and the values of all numbers, that a call is compiled for."""
        return tuple(
            (value.shape, value.stride(), value.item() if position in self.read else None)
            if isinstance(value, Tensor)
            else value
            for position, value in enumerate(inputs)
        )


def open_numbers(graph: fx.Graph) -> OpenNumbers:
    """The numbers that Dynamo left open in its graph."""
    placeholders = graph.find_nodes(op="placeholder")
    return OpenNumbers(
        symbolic=any(_is_symbolic(node.meta.get("example_value")) for node in placeholders),
        read=frozenset(placeholders.index(node.args[0]) for node in _reads_of_inputs(graph)),
    )


def with_numbers(module: fx.GraphModule, inputs: Sequence[Any]) -> fx.GraphModule:
    """A copy of the graph that holds the numbers among ``inputs`` as constants and takes the tensors alone."""
    graph = copy.deepcopy(module.graph)
    values = dict(zip(graph.find_nodes(op="placeholder"), inputs, strict=True))
    for node in _reads_of_inputs(graph):
        _replace(node, values[node.args[0]].item())
    for node, value in values.items():
        if not isinstance(value, Tensor):
            _replace(node, value)
    return fx.GraphModule(module, graph)


def _is_symbolic(value: Any) -> bool:
    if not isinstance(value, Tensor):
        return isinstance(value, _SYMBOLS)
    return any(isinstance(size, _SYMBOLS) for size in (*value.shape, *value.stride(), value.storage_offset()))


def _reads_of_inputs(graph: fx.Graph) -> list[fx.Node]:
    reads = graph.find_nodes(op="call_method", target="item")
    return [node for node in reads if isinstance(node.args[0], fx.Node) and node.args[0].op == "placeholder"]


def _replace(node: fx.Node, number: float) -> None:
    def put(one: fx.Node) -> Any:
        return number if one is node else one

    for user in list(node.users):
        user.args, user.kwargs = map_arg(user.args, put), map_arg(user.kwargs, put)
    node.graph.erase_node(node)
