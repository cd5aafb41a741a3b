"""A graph in the place of one of another graph's nodes."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, fx

from ...passes.context import placeholders, results
from ...passes.result_type import as_type


def inline_before(
    module: fx.GraphModule, anchor: fx.Node, inlined: fx.GraphModule, operands: Sequence[fx.Node]
) -> list[fx.Node]:
    """Copy a graph in front of a node, whose source location the copies take; returns the nodes of its results."""
    copies = dict(zip(placeholders(inlined), operands, strict=True))
    for one in inlined.graph.nodes:
        if one.op == "get_attr":
            copies[one] = attribute_before(module, anchor, getattr(inlined, str(one.target)))
        elif one.op == "call_function":
            with anchor.graph.inserting_before(anchor):
                copies[one] = anchor.graph.node_copy(one, copies.__getitem__)
            copies[one].meta = {**anchor.meta, "val": one.meta["val"]}
    return [copies[one] for one in results(inlined)]


def attribute_before(module: fx.GraphModule, anchor: fx.Node, value: Tensor | torch.nn.Module) -> fx.Node:
    """A node for a constant, or for the graph of a loop, under a name of its own."""
    kind = "constant" if isinstance(value, Tensor) else "graph"
    name = f"inlined_{kind}_{sum(one.op == 'get_attr' for one in module.graph.nodes)}"
    while hasattr(module, name):
        name += "_"
    if isinstance(value, Tensor):
        module.register_buffer(name, value)
    else:
        module.add_module(name, value)
    with anchor.graph.inserting_before(anchor):
        node = anchor.graph.get_attr(name)
    if isinstance(value, Tensor):
        node.meta["val"] = as_type(value)
    return node
