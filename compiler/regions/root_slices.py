"""Let a region take only the rows of a root that it touches.

The layers of a model differ in where their rows lie in a root that they share. Given the rows alone, their regions
have the same positions, and are equal if nothing else differs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import fx

from ...passes.context import arguments, placeholders
from ...passes.lazy_module import lazy_module
from ...passes.result_type import as_type
from .cut import Region, Rows
from .root_use import ROW_ACCESSES, held_nodes, row_elements, static_rows
from .root_versions import LAYOUTS

aten = torch.ops.aten

_SAME_ELEMENTS = LAYOUTS | {aten.expand.default}
"""Operators whose elements are those of their first argument."""


def slice_roots(region: Region, slices: Mapping[int, Rows]) -> Region:
    """``region`` with slices in the place of some of its inputs, by their index; it touches no other rows of them."""
    if not slices:
        return region
    places = {place: replace(place, rows=slices[i]) for i, place in enumerate(region.inputs) if i in slices}
    graph = fx.Graph()
    copies: dict[fx.Node, fx.Node] = {}
    output = graph.graph_copy(region.module.graph, copies)  # pyright: ignore[reportArgumentType]
    graph.output(output)
    for index, rows in slices.items():
        _narrow(copies[placeholders(region.module)[index]], rows)
    graph.eliminate_dead_code()
    return replace(
        region,
        module=lazy_module(region.module, graph),
        inputs=tuple(places.get(place, place) for place in region.inputs),
        outputs=tuple(places.get(place, place) for place in region.outputs),
    )


def _narrow(root: fx.Node, rows: Rows) -> None:
    """Make a placeholder the rows of a root, and every access to it relative to the first of them."""
    width = row_elements(root)
    held, moved = held_nodes(root), _Positions()
    for table in held:
        first = rows.first * width // row_elements(table)
        for user in list(table.users):
            if user.target in ROW_ACCESSES and first:
                user.update_arg(1, [moved.earlier(arguments(user)[1][0], first)])
            elif user not in held and user.op != "output" and first:
                _take_earlier(user, first)
    for table in held:
        shape = (rows.count * width // row_elements(table), *table.meta["val"].shape[1:])
        if table.target in LAYOUTS:
            table.target, table.args = aten.reshape.default, (table.args[0], list(shape))
        table.meta["val"] = as_type(table.meta["val"]).new_empty(shape)


def _take_earlier(view: fx.Node, distance: int) -> None:
    """Let a view of rows that ``static_rows`` knows take rows ``distance`` before."""
    first, end = static_rows(view) or (0, 0)
    if view.target is aten.select.int:
        view.update_arg(2, first - distance)
    else:
        view.args = (view.args[0], 0, first - distance, end - distance, *arguments(view)[4:])


class _Positions:
    """Positions less a distance; what has been moved once is found again."""

    def __init__(self) -> None:
        self._moved: dict[tuple[fx.Node, int], fx.Node] = {}

    def earlier(self, positions: fx.Node, distance: int) -> fx.Node:
        """``positions - distance``, which is taken from the constant that they were made from if there is one."""
        if (positions, distance) not in self._moved:
            self._moved[positions, distance] = self._move(positions, distance)
        return self._moved[positions, distance]

    def _move(self, positions: fx.Node, distance: int) -> fx.Node:
        given = arguments(positions)
        if positions.target is aten.full.default:
            return _like(positions, aten.full.default, given[0], given[1] - distance, **positions.kwargs)
        if positions.target is aten.cat.default:
            return _like(positions, aten.cat.default, [self.earlier(part, distance) for part in given[0]], *given[1:])
        if positions.target is aten.add.Tensor or positions.target in _SAME_ELEMENTS:
            return _like(positions, positions.target, self.earlier(given[0], distance), *given[1:], **positions.kwargs)
        return _like(positions, aten.sub.Tensor, positions, distance)


def _like(node: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A call behind ``node`` whose result has the same type."""
    with node.graph.inserting_after(node):
        other = node.graph.call_function(target, args, kwargs)
    other.meta.update(node.meta)
    return other
