"""Cut the graph of a step into consecutive segments, each a graph of its own."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from ...errors import GraphError
from ...passes.context import output_node

aten = torch.ops.aten

_UPDATES = {aten.index_put.default, aten.index_copy.default, aten.slice_scatter.default}


@dataclass(frozen=True)
class Segment:
    """A run of consecutive nodes.

    ``inputs`` and ``outputs`` are the nodes of the whole graph that its placeholders and results stand for.
    ``updates`` maps an output's index to the index of the input that it is an updated version of.
    """

    name: str
    module: fx.GraphModule
    inputs: tuple[fx.Node, ...]
    outputs: tuple[fx.Node, ...]
    updates: dict[int, int]


def cut_graph(module: fx.GraphModule, is_end: Callable[[fx.Node], bool], names: Sequence[str]) -> list[Segment]:
    """Cut after every node that ``is_end`` accepts and the items of its result, and name the pieces in order.

    Raises:
        GraphError: there is not one name for each piece.
    """
    pieces: list[list[fx.Node]] = []
    ended = True
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        if ended and node.target is not operator.getitem:
            pieces.append([])
        pieces[-1].append(node)
        ended = is_end(node) or (ended and node.target is operator.getitem)
    if len(pieces) != len(names):
        raise GraphError(f"cutting the graph makes {len(pieces)} segments, there are {len(names)} names: {list(names)}")
    returned = set(output_node(module).all_input_nodes)
    return [_segment(module, name, piece, returned) for name, piece in zip(names, pieces, strict=True)]


def updated_source(node: fx.Node) -> fx.Node:
    """The tensor that ``node`` is a version of with other rows; itself if it is no such version."""
    while node.target in _UPDATES and isinstance(node.args[0], fx.Node):
        node = node.args[0]
    return node


def _segment(module: fx.GraphModule, name: str, piece: Sequence[fx.Node], returned: set[fx.Node]) -> Segment:
    inside = set(piece)
    graph = fx.Graph()
    outside = dict.fromkeys(source for node in piece for source in node.all_input_nodes if source not in inside)
    inputs = [source for source in outside if source.op != "get_attr"]
    outputs = [node for node in piece if node in returned or any(user not in inside for user in node.users)]
    copies = {source: _input(graph, source, index) for index, source in enumerate(inputs)}
    copies |= {source: graph.node_copy(source) for source in outside if source.op == "get_attr"}
    for node in piece:
        copies[node] = graph.node_copy(node, lambda source: copies[source])
    graph.output(tuple(copies[node] for node in outputs))
    return Segment(name, fx.GraphModule(module, graph), tuple(inputs), tuple(outputs), _updates(inputs, outputs))


def _input(graph: fx.Graph, source: fx.Node, index: int) -> fx.Node:
    placeholder = graph.placeholder(f"input_{index}")
    placeholder.meta["val"] = source.meta["val"]
    return placeholder


def _updates(inputs: Sequence[fx.Node], outputs: Sequence[fx.Node]) -> dict[int, int]:
    """Pairs of versions of one tensor, the newest output with it; only these can share its memory."""
    sources = {updated_source(node): index for index, node in enumerate(inputs)}
    newest = {updated_source(node): index for index, node in enumerate(outputs) if node.target in _UPDATES}
    return {index: sources[source] for source, index in newest.items() if source in sources}
