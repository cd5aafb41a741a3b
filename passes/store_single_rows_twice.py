"""Store one row as the same row twice, for the host.

XLA's CPU compiler turns a scatter of one row into a slice update and repeats it inside every fusion that
reads the result, which makes it copy the whole buffer first. A scatter of two equal rows stays a scatter
in place.
"""

from __future__ import annotations

import torch
from torch import fx

from .context import PassContext, arguments, emit_before

aten = torch.ops.aten


def store_single_rows_twice(module: fx.GraphModule, context: PassContext) -> int:
    """Double the index and the row of every store of a single row; returns how many there were."""
    if context.target != "host":
        return 0
    changed = 0
    for node in list(module.graph.nodes):
        positions = _index_and_rows(node)
        if positions is not None:
            index, rows = positions
            stored = list(node.args)
            stored[-1] = emit_before(node, aten.cat.default, [rows, rows])
            doubled = emit_before(node, aten.cat.default, [index, index])
            stored[-2] = [doubled] if isinstance(stored[-2], list) else doubled
            node.args = tuple(stored)
            changed += 1
    return changed


def _index_and_rows(node: fx.Node) -> tuple[fx.Node, fx.Node] | None:
    """The index [1] and the rows [1, ...] of a store along the first dimension, or None for any other node."""
    given = list(arguments(node)[1:])
    if node.target is aten.index_put.default and len(given) == 2 and len(given[0]) == 1:
        index, rows = given[0][0], given[1]
    elif node.target is aten.index_copy.default and given[0] == 0:
        index, rows = given[1], given[2]
    else:
        return None
    types = index.meta["val"], rows.meta["val"]
    single = types[0].shape == (1,) and types[0].dtype is not torch.bool
    whole = types[1].shape[:1] == (1,) and types[1].dim() == node.meta["val"].dim()
    return (index, rows) if single and whole else None
