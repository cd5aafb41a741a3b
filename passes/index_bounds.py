"""Which inputs address memory without anything being known about their values.

A gather or scatter beyond its table ends a Trainium program with NRT_EXEC_OOB; PyTorch raises an error, XLA's CPU
compiler clamps.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import fx

from .context import PassContext, arguments_by_name, placeholders
from .interval import Interval
from .value_ranges import ValueRanges


def unbounded_indices(module: fx.GraphModule, context: PassContext) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Each operator with an index that may lie beyond its table, and an input without a range that it comes from."""
    ranges = ValueRanges(module, context.value_range)
    unknown = {node for i, node in enumerate(placeholders(module)) if context.value_range(i) is None}
    for node in module.graph.nodes:
        for index, size in _indices(node):
            if not ranges[index].within(Interval(-size, size - 1)):
                yield from ((node, source) for source in _sources(index) if source in unknown)


def _indices(node: fx.Node) -> Iterator[tuple[fx.Node, int]]:
    """The indices that an operator is given, and the size of the dimension that each of them counts."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    given = arguments_by_name(node)
    index: Any = given.get("index", given.get("indices"))
    table: Any = given.get("self", given.get("weight"))
    if isinstance(index, fx.Node) and _is_number(index):
        shape = table.meta["val"].shape
        yield index, shape[given.get("dim", 0)] if shape else 1
    if isinstance(index, (list, tuple)):
        axis = 0
        for one in index:
            if isinstance(one, fx.Node) and _is_number(one):
                yield one, table.meta["val"].shape[axis]
            is_mask = isinstance(one, fx.Node) and one.meta["val"].dtype is torch.bool
            axis += one.meta["val"].dim() if is_mask else 1


def _sources(index: fx.Node) -> Iterator[fx.Node]:
    """The inputs that an index comes from through integers alone."""
    pending, seen = [index], {index}
    while pending:
        node = pending.pop()
        if node.op == "placeholder":
            yield node
        new = [source for source in node.all_input_nodes if source not in seen and _is_number(source)]
        seen.update(new)
        pending.extend(new)


def _is_number(node: fx.Node) -> bool:
    """Whether a value, or a part of a tuple, is an integer tensor that is no mask."""
    value = node.meta.get("val")
    dtypes = [getattr(one, "dtype", None) for one in (value if isinstance(value, (tuple, list)) else [value])]
    return any(
        dtype is not None and dtype is not torch.bool and not dtype.is_floating_point and not dtype.is_complex
        for dtype in dtypes
    )
