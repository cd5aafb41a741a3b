"""Fewer results, in memory of their own."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch import fx

from ...passes.context import output_node, results
from .proposal import Proposal
from .retype import retype


def drop_aliases(module: fx.GraphModule, aliases: Mapping[int, int]) -> Iterator[Proposal]:
    """Results that reuse no input's memory: none of them, then one less."""
    if aliases:
        yield Proposal("results reuse no memory", retype(module, {}), {})
    if len(aliases) > 1:
        for output in aliases:
            rest = {one: source for one, source in aliases.items() if one != output}
            yield Proposal(f"result {output} reuses no memory", retype(module, {}), rest)


def return_fewer(module: fx.GraphModule, aliases: Mapping[int, int]) -> Iterator[Proposal]:
    """One result less, where its operation is used all the same."""
    returned = results(module)
    for position, node in enumerate(returned):
        others = [one for index, one in enumerate(returned) if index != position]
        if others and _is_used_without(node, others):
            yield _returning(module, aliases, [index for index in range(len(returned)) if index != position])


def _is_used_without(node: fx.Node, others: Sequence[fx.Node]) -> bool:
    if node in others or node.op != "call_function":
        return True
    if any(user.op != "output" for user in node.users):
        return True
    # The part of a tuple is no operation of its own.
    source: Any = node.args[0] if node.target is operator.getitem else None
    return source is not None and any(
        user in others or user.users.keys() - {*others} for user in source.users if user is not node
    )


def _returning(module: fx.GraphModule, aliases: Mapping[int, int], positions: Sequence[int]) -> Proposal:
    copy = retype(module, {})
    output = output_node(copy)
    values = results(copy)
    output.args = (tuple(values[index] for index in positions),)
    _erase_unread_parts(copy)
    moved = {positions.index(index): source for index, source in aliases.items() if index in positions}
    gone = next(index for index in range(len(values)) if index not in positions)
    return Proposal(f"result {gone} is not returned", copy, moved)


def _erase_unread_parts(module: fx.GraphModule) -> None:
    for node in reversed(module.graph.nodes):
        if node.target is operator.getitem and not node.users:
            module.graph.erase_node(node)
