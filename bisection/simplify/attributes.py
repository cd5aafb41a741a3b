"""Arguments that are left out, and plain numbers; in small graphs, since each argument is a question."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from torch import fx
from torch._ops import OpOverload

from ...errors import GraphError
from .proposal import Proposal
from .retype import retype

_NUMBERS = ("number", "float", "Optional[number]", "Optional[float]", "Tensor")
"""Schema types of numbers that are computed with; a number may stand for a tensor."""


_MOST_CALLS = 16
_TYPES = ("dtype", "memory_format", "layout", "device")
"""Arguments that say what the result is, rather than how it is computed."""


def default_arguments(module: fx.GraphModule, aliases: Mapping[int, int]) -> Iterator[Proposal]:
    """Each argument that is not its operator's default, left out."""
    for node in _calls(module):
        for name, value, default in _optional(node):
            if not isinstance(value, fx.Node) and value != default:
                yield from _changed(module, aliases, node, name, value, default)


def plain_numbers(module: fx.GraphModule, aliases: Mapping[int, int]) -> Iterator[Proposal]:
    """Each number that an operator computes with, as 1; the operator's own default is plain too."""
    for node in _calls(module):
        for one, value in _given(node):
            plain = (0, 1, one.default_value) if one.has_default_value() else (0, 1)
            if str(one.type) in _NUMBERS and isinstance(value, (int, float)) and value not in plain:
                yield from _changed(module, aliases, node, one.name, value, type(value)(1))


def _calls(module: fx.GraphModule) -> list[fx.Node]:
    calls = [node for node in module.graph.nodes if isinstance(node.target, OpOverload)]
    return calls if len(calls) <= _MOST_CALLS else []


def _given(node: fx.Node) -> list[tuple[Any, Any]]:
    """The schema's arguments that a call gives, and their values."""
    assert isinstance(node.target, OpOverload)
    schema = node.target._schema.arguments
    by_name = {one.name: one for one in schema}
    return [*zip(schema, node.args, strict=False), *((by_name[name], value) for name, value in node.kwargs.items())]


def _optional(node: fx.Node) -> list[tuple[str, Any, Any]]:
    return [
        (one.name, value, one.default_value)
        for one, value in _given(node)
        if one.has_default_value() and one.name not in _TYPES
    ]


def _changed(
    module: fx.GraphModule, aliases: Mapping[int, int], changed: fx.Node, name: str, old: Any, new: Any
) -> Iterator[Proposal]:
    """The graph with another value of one argument, if the operator takes it."""

    def rewrite(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        if node is not changed:
            return args, kwargs
        assert isinstance(node.target, OpOverload)
        names = [one.name for one in node.target._schema.arguments]
        if name in kwargs:
            return args, {**kwargs, name: new}
        position = names.index(name)
        return (*args[:position], new, *args[position + 1 :]), kwargs

    try:
        yield Proposal(f"{changed.name}: {name} {old} -> {new}", retype(module, {}, rewrite), aliases)
    except GraphError:
        return
