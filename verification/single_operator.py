"""Take one operator call out of its graph."""

from __future__ import annotations

import operator

import torch
from torch import fx


def single_operator_graph(node: fx.Node) -> fx.GraphModule:
    """A graph that makes only the call of ``node``.

    Its inputs are the node's distinct tensor arguments in order of first use, its outputs the call's tensors. Numbers
    and other arguments stay as they are.
    """
    graph = fx.Graph()
    inputs = {}
    for source in node.all_input_nodes:
        inputs[source] = graph.placeholder(f"input_{len(inputs)}")
        inputs[source].meta["val"] = source.meta["val"]
    call = graph.node_copy(node, lambda source: inputs[source])
    results = [call] if isinstance(call.meta["val"], torch.Tensor) else _items(graph, call)
    graph.output(tuple(results))
    return fx.GraphModule(torch.nn.Module(), graph)


def _items(graph: fx.Graph, call: fx.Node) -> list[fx.Node]:
    items = []
    for index, value in enumerate(call.meta["val"]):
        if isinstance(value, torch.Tensor):
            items.append(graph.call_function(operator.getitem, (call, index)))
            items[-1].meta["val"] = value
    return items
