"""Which rows of an updated input a region reads and stores, where its graph tells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from ...passes.context import REACH, arguments, placeholders, results
from ...runtime.memory import ALIGNMENT
from .cut import Region
from .root_versions import LAYOUTS, STORES

aten = torch.ops.aten

ROW_ACCESSES = frozenset({aten.index.Tensor, aten.index_put.default})
"""Operators that read or store rows of their first argument at the positions in their second one."""


@dataclass(frozen=True)
class RootUse:
    """Rows from ``first`` up to ``end``, of ``rows``, which can be cut off the rest at multiples of ``step`` rows."""

    rows: int
    first: int
    end: int
    step: int = 1


def root_use(region: Region, index: int) -> RootUse:
    """The rows that ``region`` can touch of the root that is its input ``index``: all of them if nothing tells."""
    root = placeholders(region.module)[index]
    shape = root.meta["val"].shape
    rows, width = (shape[0], row_elements(root)) if shape else (1, 1)
    held = held_nodes(root)
    spans = list(_spans(region, held))
    if not shape or not width or not spans or None in spans:
        return RootUse(rows, 0, rows)
    starts, ends = zip(*(span for span in spans if span is not None), strict=True)
    first, end = min(starts), max(*ends, min(starts) + 1)
    step = math.lcm(*map(row_elements, held), ALIGNMENT // root.meta["val"].dtype.itemsize)
    return RootUse(rows, first // width, -(-end // width), step // width)


def held_nodes(root: fx.Node) -> list[fx.Node]:
    """A region's placeholder for a root, and the nodes that have the root's memory: stores into it, and layouts."""
    held = [root]
    for node in held:
        held.extend(user for user in node.users if user.target in STORES | LAYOUTS and user not in held)
    return held


def row_elements(table: fx.Node) -> int:
    """Number of elements of one row along the first dimension."""
    return math.prod(table.meta["val"].shape[1:])


def static_rows(view: fx.Node) -> tuple[int, int] | None:
    """First row and end of what a view takes of its first argument; None if it is no view of whole rows."""
    table, *given = arguments(view)
    count = table.meta["val"].shape[0]
    if view.target is aten.select.int and given[0] == 0:
        row = given[1] % count
        return row, row + 1
    if view.target is aten.slice.Tensor and (not given or given[0] == 0):
        _, start, stop, _ = (*given, *(0, None, None, 1)[len(given) :])
        first, end, _ = slice(start, stop).indices(count)
        return first, end
    return None


def _spans(region: Region, held: Sequence[fx.Node]) -> Iterator[tuple[int, int] | None]:
    """First element and end of each access to a root; None for one that may be anywhere."""
    root = held[0]
    returned = results(region.module)
    updates = [output for output, source in region.aliases.items() if placeholders(region.module)[source] is root]
    if any((node in held) != (output in updates) for output, node in enumerate(returned)):
        yield None
    for table in held:
        for user in table.users:
            if user.op != "output":
                if _sources(user).count(table) != 1 or arguments(user)[0] is not table:
                    yield None
                elif user.target not in LAYOUTS:
                    yield _span(user, table)


def _sources(node: fx.Node) -> list[fx.Node]:
    """The nodes among the arguments, each as often as it occurs."""
    found: list[fx.Node] = []
    fx.map_arg((node.args, node.kwargs), found.append)
    return found


def _span(access: fx.Node, table: fx.Node) -> tuple[int, int] | None:
    if access.target in ROW_ACCESSES and REACH in access.meta and len(arguments(access)[1]) == 1:
        return access.meta[REACH]
    rows, width = static_rows(access), row_elements(table)
    return None if rows is None else (rows[0] * width, rows[1] * width)
