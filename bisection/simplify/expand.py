"""Write out the kernels of a graph, so that the search can go on inside them."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_aggregate

from ...compiler.lowering.call_arguments import is_custom
from ...compiler.lowering.decompose import Decompositions
from ...compiler.lowering.options import LoweringOptions
from ...passes.lazy_module import lazy_module


def has_kernels(module: fx.GraphModule) -> bool:
    """Whether a graph calls custom operators."""
    return any(is_custom(node.target) for node in module.graph.nodes)


def expand_kernels(module: fx.GraphModule, options: LoweringOptions) -> fx.GraphModule:
    """A copy with the operators that custom ones are lowered to for ``options``; they have the line of the call."""
    expansion = _Expansion(Decompositions(options))
    values: dict[fx.Node, Any] = {}
    for node in module.graph.nodes:
        if is_custom(node.target):
            values[node] = expansion.body(node, [values[source] for source in node.all_input_nodes])
        elif node.target is operator.getitem and isinstance(values[node.args[0]], tuple):
            values[node] = values[node.args[0]][node.args[1]]
        else:
            values[node] = expansion.copy(node, module, values)
    return lazy_module(expansion.root, expansion.graph)


class _Expansion:
    """The graph in the making, and the module that owns its constants."""

    def __init__(self, decompositions: Decompositions) -> None:
        self.graph = fx.Graph()
        self.root = torch.nn.Module()
        self._decompositions = decompositions
        self._owned = 0

    def copy(self, node: fx.Node, owner: fx.GraphModule, values: Mapping[fx.Node, Any]) -> fx.Node:
        """Append one node with what stands for its arguments."""
        if node.op == "get_attr":
            copy = self._attribute(getattr(owner, str(node.target)))
        elif node.op == "placeholder":
            copy = self.graph.placeholder(node.name)
        else:
            args, kwargs = map_aggregate(
                (node.args, node.kwargs), lambda one: values[one] if isinstance(one, fx.Node) else one
            )
            copy = self.graph.create_node(node.op, node.target, args, kwargs, node.name)  # pyright: ignore
        copy.meta.update(node.meta)
        return copy

    def body(self, node: fx.Node, inputs: list[Any]) -> Any:
        """Append what a custom operator does."""
        inner = self._decompositions.graph(node)
        values: dict[fx.Node, Any] = dict(zip(inner.graph.find_nodes(op="placeholder"), inputs, strict=True))
        for one in inner.graph.nodes:
            if one.op == "output":
                returned: Any = map_aggregate(one.args[0], lambda part: values[part])  # pyright: ignore
                return returned[0] if isinstance(node.meta["val"], Tensor) else tuple(returned)
            if one not in values:
                values[one] = self.copy(one, inner, values)
                values[one].meta["stack_trace"] = node.stack_trace
        raise AssertionError("a graph ends with its output")

    def _attribute(self, held: Any) -> fx.Node:
        name = f"held_{self._owned}"
        self._owned += 1
        setattr(self.root, name, held)
        return self.graph.get_attr(name)
