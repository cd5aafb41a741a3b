"""Replace operators that are lowered through a decomposition by the operators of that decomposition."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate

from ..compiler.lowering.control_flow import WHILE_LOOP
from ..compiler.lowering.decompose import Decompositions
from .operator_walk import is_compared, is_decomposed


def inline_decompositions(module: fx.GraphModule) -> fx.GraphModule:
    """A copy of ``module`` without decomposed operators, but for those that loop.

    Results equal those of the decompositions in eager PyTorch, which read contiguous copies of their inputs.
    """
    inlined = _Inlined()
    (output,) = module.graph.find_nodes(op="output")
    inlined.graph.output(inlined.copy(module.graph.nodes, module, {}, None)[output])
    return fx.GraphModule(inlined.root, inlined.graph)


class _Inlined:
    """The graph under construction and the module that owns its constants."""

    def __init__(self) -> None:
        self.graph = fx.Graph()
        self.root = torch.nn.Module()
        self._decompositions = Decompositions()
        self._constants = 0

    def copy(
        self, nodes: Iterable[fx.Node], owner: fx.GraphModule, values: dict[fx.Node, Any], caller: fx.Node | None
    ) -> dict[fx.Node, Any]:
        """Append ``nodes``; ``values`` holds what replaces the nodes before them and is returned filled.

        ``caller`` is the node that a decomposition belongs to: its source line becomes theirs.
        """

        def replaced(argument: Any) -> Any:
            return map_aggregate(argument, lambda one: values[one] if isinstance(one, fx.Node) else one)

        for node in nodes:
            if node in values:
                continue
            if node.op == "output":
                values[node] = replaced(node.args[0])
            elif node.op == "get_attr":
                values[node] = self._constant(node, owner)
            elif node.target is operator.getitem and isinstance(values[node.all_input_nodes[0]], tuple):
                values[node] = values[node.all_input_nodes[0]][node.args[1]]
            elif is_compared(node) and is_decomposed(node) and not self._loops(node):
                values[node] = self._decomposed(node, replaced, caller or node)
            else:
                values[node] = self.graph.node_copy(node, lambda source: values[source])
                values[node].meta["stack_trace"] = (caller or node).stack_trace
        return values

    def _decomposed(self, node: fx.Node, replaced: Callable[[Any], Any], caller: fx.Node) -> Any:
        inner = self._decompositions.graph(node)
        inputs = inner.graph.find_nodes(op="placeholder")
        given = {
            one: self._contiguous(replaced(source), one)
            for one, source in zip(inputs, node.all_input_nodes, strict=True)
        }
        (output,) = inner.graph.find_nodes(op="output")
        results = self.copy(inner.graph.nodes, inner, given, caller)[output]
        return results[0] if isinstance(node.meta["val"], torch.Tensor) else tuple(results)

    def _contiguous(self, value: fx.Node, like: fx.Node) -> fx.Node:
        copy = self.graph.call_function(
            torch.ops.aten.clone.default, (value,), {"memory_format": torch.contiguous_format}
        )
        copy.meta["val"] = like.meta["val"]
        return copy

    def _constant(self, node: fx.Node, owner: fx.GraphModule) -> fx.Node:
        name = f"constant_{self._constants}"
        self._constants += 1
        setattr(self.root, name, getattr(owner, str(node.target)))
        copy = self.graph.get_attr(name)
        copy.meta.update(node.meta)
        return copy

    def _loops(self, node: fx.Node) -> bool:
        return any(inner.target is WHILE_LOOP for inner in self._decompositions.graph(node).graph.nodes)
