"""Read and write a view of a large tensor as rows of that tensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import fx

from .context import REACH, emit_before
from .strided_view import StridedView

aten = torch.ops.aten

Indices = Sequence[fx.Node | None]
"""One integer tensor for each leading dimension of a view, or None for the whole of a dimension."""


@dataclass(frozen=True)
class _Rows:
    """The base as rows, and which rows an access touches.

    ``positions`` has the shape of the access without its last ``len(row_shape)`` dimensions, which are a row; an
    access of parts of rows has one dimension more.
    """

    table: fx.Node
    positions: fx.Node
    row_shape: tuple[int, ...]
    shape: tuple[int, ...]


def can_access(view: StridedView, indices: Indices) -> bool:
    """Whether ``indices`` are integer tensors that follow one another, with whole dimensions only around them."""
    tensors = [position for position, index in enumerate(indices) if index is not None]
    adjacent = not tensors or tensors == list(range(tensors[0], tensors[-1] + 1))
    masks = any(index is not None and index.meta["val"].dtype in (torch.bool, torch.uint8) for index in indices)
    return adjacent and not masks and 0 not in view.size


def load_rows(anchor: fx.Node, view: StridedView, indices: Indices) -> fx.Node:
    """Emit ``view[indices]`` in front of ``anchor`` as a gather of rows of the base."""
    rows = _locate(anchor, view, indices)
    loaded = emit_before(anchor, aten.index.Tensor, rows.table, [rows.positions])
    loaded.meta[REACH] = view.reach
    return in_shape(anchor, loaded, rows.shape)


def store_rows(anchor: fx.Node, view: StridedView, indices: Indices, values: fx.Node) -> fx.Node:
    """Emit the base with ``view[indices] = values`` in front of ``anchor`` as a store of rows of the base."""
    rows = _locate(anchor, view, indices)
    if tuple(values.meta["val"].shape) != rows.shape:
        values = emit_before(anchor, aten.expand.default, values, list(rows.shape))
    shape = (*rows.positions.meta["val"].shape, *rows.row_shape)
    if rows.shape != shape:
        values = emit_before(anchor, aten.reshape.default, values, list(shape))
    stored = emit_before(anchor, aten.index_put.default, rows.table, [rows.positions], values)
    stored.meta[REACH] = view.reach
    return in_shape(anchor, stored, view.base.meta["val"].shape)


def _locate(anchor: fx.Node, view: StridedView, indices: Indices) -> _Rows:
    tensors = [index for index in indices if index is not None]
    lead = next((axis for axis, index in enumerate(indices) if index is not None), 0)
    behind = lead + len(tensors)
    row = max(_first_dense_axis(view), behind)
    row_shape = view.size[row:]
    batch = tuple(torch.broadcast_shapes(*[index.meta["val"].shape for index in tensors]))
    moving = [stride for size, stride in zip(view.size[:row], view.stride[:row], strict=True) if size > 1]
    width = math.gcd(math.prod(row_shape), view.offset, view.base_elements, *moving)
    pieces = math.prod(row_shape) // width
    steps = [*[stride // width for stride in view.stride[:row]], 1]
    axes = (*view.size[:lead], *batch, *view.size[behind:row], *((pieces,) if pieces > 1 else ()))
    axes = axes or (1,)

    dtype = torch.int32 if view.base_elements < 2**31 else torch.int64
    terms = [_counted(anchor, axes, axis, view.size[axis], steps[axis], dtype) for axis in range(lead)]
    for index, axis in zip(tensors, range(lead, behind), strict=True):
        terms.append(_indexed(anchor, axes, lead + len(batch), index, view.size[axis], steps[axis]))
    for axis in range(behind, row):
        place = axis - behind + lead + len(batch)
        terms.append(_counted(anchor, axes, place, view.size[axis], steps[axis], dtype))
    if pieces > 1:
        terms.append(_counted(anchor, axes, len(axes) - 1, pieces, 1, dtype))
    positions = emit_before(anchor, aten.full.default, list(axes), view.offset // width, dtype=dtype)
    for term in terms:
        if term is not None:
            positions = emit_before(anchor, aten.add.Tensor, positions, term)
    row_shape = row_shape if pieces == 1 else (width,)
    table = emit_before(anchor, aten.view.default, view.base, [view.base_elements // width, *row_shape])
    shape = (*view.size[:lead], *batch, *view.size[behind:])
    return _Rows(table, positions, row_shape, shape)


def _first_dense_axis(view: StridedView) -> int:
    """The first dimension from which on the elements of the view lie one behind the other."""
    expected, axis = 1, len(view.size)
    while axis and (view.size[axis - 1] == 1 or view.stride[axis - 1] == expected):
        axis -= 1
        expected *= view.size[axis]
    return axis


def _counted(
    anchor: fx.Node, axes: Sequence[int], axis: int, size: int, step: int, dtype: torch.dtype
) -> fx.Node | None:
    """0, step, 2 * step, ... along one dimension of the positions."""
    if size == 1 or step == 0:
        return None
    counted = emit_before(anchor, aten.arange.start_step, 0, size * step, step, dtype=dtype)
    return emit_before(anchor, aten.view.default, counted, [size] + [1] * (len(axes) - axis - 1))


def _indexed(anchor: fx.Node, axes: Sequence[int], end: int, index: fx.Node, size: int, step: int) -> fx.Node:
    """The index times the step, ending at dimension ``end`` of the positions; negative ones count from the end."""
    from_end = emit_before(anchor, aten.add.Tensor, index, size)
    is_negative = emit_before(anchor, aten.lt.Scalar, index, 0)
    term = emit_before(anchor, aten.where.self, is_negative, from_end, index)
    if step != 1:
        term = emit_before(anchor, aten.mul.Tensor, term, step)
    return in_shape(anchor, term, (*index.meta["val"].shape, *[1] * (len(axes) - end)))


def in_shape(anchor: fx.Node, value: fx.Node, shape: Sequence[int]) -> fx.Node:
    """``value``, viewed in another shape in front of ``anchor`` if it has to be."""
    if tuple(value.meta["val"].shape) == tuple(shape):
        return value
    return emit_before(anchor, aten.view.default, value, list(shape))
