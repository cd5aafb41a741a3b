"""Copies of a graph with other inputs or arguments, every result typed anew."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, fx
from torch._ops import OpOverload

from ...errors import GraphError
from ...passes.lazy_module import lazy_module
from ...passes.result_type import as_type, result_type

Rewrite = Callable[[fx.Node, tuple[Any, ...], dict[str, Any]], tuple[tuple[Any, ...], dict[str, Any]]]
"""Other arguments for a call, whose tensors are nodes of the copy already."""


def retype(
    module: fx.GraphModule,
    types: Mapping[fx.Node, Tensor],
    rewrite: Rewrite = lambda node, args, kwargs: (args, kwargs),
    replaced: Mapping[fx.Node, fx.Node] | None = None,
) -> fx.GraphModule:
    """A copy of ``module``; the given one is not changed.

    Args:
        types: what placeholders get, and constants that become placeholders; others keep what they have.
        rewrite: called for each operator.
        replaced: placeholders that go, and the ones that stand for them.

    Raises:
        GraphError: an operator does not take what it would get.
    """
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    replaced = replaced or {}
    for node in module.graph.nodes:
        if node.op == "placeholder" or (node.op == "get_attr" and node in types):
            copies[node] = copies[replaced[node]] if node in replaced else _input(graph, node, types)
        elif node.op == "call_function" and isinstance(node.target, OpOverload):
            args, kwargs = fx.map_arg((node.args, node.kwargs), copies.__getitem__)  # pyright: ignore
            copies[node] = _call(graph, node, *rewrite(node, args, dict(kwargs)))
        else:
            copies[node] = graph.node_copy(node, copies.__getitem__)
            if node.target is operator.getitem:
                copies[node].meta["val"] = _part(copies[node])
    _inputs_first(graph)
    return lazy_module(module, graph)


def _input(graph: fx.Graph, node: fx.Node, types: Mapping[fx.Node, Tensor]) -> fx.Node:
    copy = graph.placeholder(node.name)
    copy.meta.update(node.meta)
    copy.meta["val"] = types.get(node, node.meta["val"])
    return copy


def _call(graph: fx.Graph, node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    copy = graph.create_node("call_function", node.target, args, kwargs, node.name)
    copy.meta.update(node.meta)
    typed_args, typed_kwargs = fx.map_arg((args, kwargs), lambda one: as_type(one.meta["val"]))  # pyright: ignore
    try:
        copy.meta["val"] = result_type(node.target, typed_args, typed_kwargs)  # pyright: ignore
    except Exception as error:
        # Each operator refuses what it cannot take with whatever exception its kernel has.
        raise GraphError(f"{node.target} does not take these types: {error}") from error
    return copy


def _part(node: fx.Node) -> Any:
    source: Any = node.args[0]
    return source.meta["val"][node.args[1]]


def _inputs_first(graph: fx.Graph) -> None:
    """Placeholders that were constants stand where those were."""
    first = next(iter(graph.nodes))
    for node in reversed(graph.find_nodes(op="placeholder")):
        if node is not first:
            first.prepend(node)
            first = node
