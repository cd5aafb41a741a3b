"""Operators that move elements without computing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxlib.mlir.dialects import stablehlo

from ...runtime.artifacts import TensorType
from .emitter import Emitter, Scalar
from .registry import lowers
from .tensor import Tensor

aten = torch.ops.aten


def axis_of(x: Tensor, dim: int) -> int:
    """A non-negative axis."""
    return dim % max(x.rank, 1)


@lowers(
    aten.view.default,
    aten.reshape.default,
    aten._unsafe_view.default,
    aten.view_copy.default,
    aten.unsqueeze.default,
    aten.squeeze.default,
    aten.squeeze.dim,
    aten.squeeze.dims,
    torch.ops.prims.view_of.default,
)
def reshape(e: Emitter, result: TensorType, x: Tensor, *arguments: Any) -> Tensor:
    """The same elements in row-major order; the result's shape says how."""
    return e.reshape(x, result.shape)


@lowers(aten.permute.default)
def permute(e: Emitter, result: TensorType, x: Tensor, dims: Sequence[int]) -> Tensor:
    """Reorder dimensions."""
    return e.transpose(x, [axis_of(x, dim) for dim in dims])


@lowers(aten.transpose.int)
def transpose(e: Emitter, result: TensorType, x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Exchange two dimensions."""
    order = list(range(x.rank))
    if order:
        first, second = axis_of(x, dim0), axis_of(x, dim1)
        order[first], order[second] = order[second], order[first]
    return e.transpose(x, order)


@lowers(aten.t.default)
def t(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """Matrix transpose; vectors pass through."""
    return e.transpose(x, list(reversed(range(x.rank))))


@lowers(aten.expand.default)
def expand(e: Emitter, result: TensorType, x: Tensor, size: Any, implicit: bool = False) -> Tensor:
    """Repeat dimensions of size one."""
    return e.expand(x, result.shape)


@lowers(aten.repeat.default)
def repeat(e: Emitter, result: TensorType, x: Tensor, repeats: Sequence[int]) -> Tensor:
    """Tile the tensor."""
    shape = (1,) * (len(repeats) - x.rank) + x.shape
    interleaved = [size for pair in zip(repeats, shape, strict=True) for size in pair]
    tiled = e.broadcast(e.reshape(x, shape), interleaved, range(1, len(interleaved), 2))
    return e.reshape(tiled, result.shape)


def _bound(position: int | None, size: int, default: int) -> int:
    if position is None:
        return default
    return min(max(position + size if position < 0 else position, 0), size)


@lowers(aten.slice.Tensor)
def slice_tensor(
    e: Emitter,
    result: TensorType,
    x: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """x[..., start:end:step, ...]."""
    axis = axis_of(x, dim)
    size = x.shape[axis]
    first = _bound(start, size, 0)
    return e.slice_axis(x, axis, first, max(_bound(end, size, size), first), step)


@lowers(aten.select.int)
def select(e: Emitter, result: TensorType, x: Tensor, dim: int, index: int) -> Tensor:
    """x[..., index, ...]."""
    axis = axis_of(x, dim)
    return e.select_axis(x, axis, index % x.shape[axis])


@lowers(aten.cat.default)
def cat(e: Emitter, result: TensorType, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join along a dimension; legacy empty vectors are skipped."""
    parts = [e.convert(x, result.dtype) for x in tensors if x.shape != (0,) or len(result.shape) == 1]
    return e.concatenate(parts, axis_of(parts[0], dim))


@lowers(aten.stack.default)
def stack(e: Emitter, result: TensorType, tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Join along a new dimension."""
    axis = dim % len(result.shape)
    shape = (*tensors[0].shape[:axis], 1, *tensors[0].shape[axis:])
    return e.concatenate([e.reshape(e.convert(x, result.dtype), shape) for x in tensors], axis)


@lowers(aten.split.Tensor, aten.split_with_sizes.default, aten.unsafe_split.Tensor, aten.chunk.default)
def split(e: Emitter, result: tuple[TensorType, ...], x: Tensor, sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Consecutive pieces; the result's shapes say how long."""
    axis = axis_of(x, dim)
    pieces, start = [], 0
    for piece in result:
        pieces.append(e.slice_axis(x, axis, start, start + piece.shape[axis]))
        start += piece.shape[axis]
    return tuple(pieces)


@lowers(aten.unbind.int)
def unbind(e: Emitter, result: tuple[TensorType, ...], x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All indices of one dimension."""
    axis = axis_of(x, dim)
    return tuple(e.select_axis(x, axis, index) for index in range(x.shape[axis]))


@lowers(aten.flip.default)
def flip(e: Emitter, result: TensorType, x: Tensor, dims: Sequence[int]) -> Tensor:
    """Reverse dimensions."""
    axes = [axis_of(x, dim) for dim in dims]
    return Tensor(stablehlo.reverse(x.value, axes), x.dtype, x.shape) if axes else x


@lowers(aten.roll.default)
def roll(e: Emitter, result: TensorType, x: Tensor, shifts: Sequence[int], dims: Sequence[int] = ()) -> Tensor:
    """Rotate dimensions, or the flattened tensor without dims."""
    rolled = x if dims else e.reshape(x, (math.prod(x.shape),))
    for shift, dim in zip(shifts, dims or (0,), strict=True):
        axis = axis_of(rolled, dim)
        size = rolled.shape[axis]
        start = -shift % size if size else 0
        head, tail = e.slice_axis(rolled, axis, start, size), e.slice_axis(rolled, axis, 0, start)
        rolled = e.concatenate([head, tail], axis)
    return e.reshape(rolled, x.shape)


@lowers(aten.constant_pad_nd.default)
def constant_pad_nd(e: Emitter, result: TensorType, x: Tensor, pad: Sequence[int], value: Scalar = 0) -> Tensor:
    """Pad or crop, last dimension first."""
    low, high = [0] * x.rank, [0] * x.rank
    for index in range(len(pad) // 2):
        low[x.rank - 1 - index], high[x.rank - 1 - index] = pad[2 * index], pad[2 * index + 1]
    return e.pad(x, low, high, value)


@lowers(aten.slice_scatter.default)
def slice_scatter(
    e: Emitter,
    result: TensorType,
    x: Tensor,
    source: Tensor,
    dim: int = 0,
    start: int | None = None,
    end: int | None = None,
    step: int = 1,
) -> Tensor:
    """x with x[..., start:end:step, ...] replaced."""
    axis = axis_of(x, dim)
    size = x.shape[axis]
    first = _bound(start, size, 0)
    length = source.shape[axis]
    if 0 in source.shape:
        return x
    value = e.convert(source, x.dtype)
    if step == 1:
        before = e.slice_axis(x, axis, 0, first)
        after = e.slice_axis(x, axis, first + length, size)
        return e.concatenate([part for part in (before, value, after) if part.shape[axis]], axis)
    position = e.iota(torch.int32, x.shape, axis)
    offset = e.binary(stablehlo.subtract, position, e.constant(first, torch.int32, x.shape))
    stride = e.constant(step, torch.int32, x.shape)
    zero = e.constant(0, torch.int32, x.shape)
    on_grid = e.compare("EQ", e.binary(stablehlo.remainder, offset, stride), zero)
    inside = e.compare("LT", offset, e.constant(length * step, torch.int32, x.shape))
    chosen = e.binary(stablehlo.and_, e.binary(stablehlo.and_, on_grid, inside), e.compare("GE", offset, zero))
    return e.select(chosen, _spread(e, value, axis, first, step, size), x)


def _spread(e: Emitter, x: Tensor, axis: int, first: int, step: int, size: int) -> Tensor:
    """Elements along ``axis`` moved to first, first + step, ..., in a dimension of ``size``."""
    low, high, interior = [0] * x.rank, [0] * x.rank, [0] * x.rank
    low[axis], interior[axis] = first, step - 1
    high[axis] = size - first - ((x.shape[axis] - 1) * step + 1)
    shape = (*x.shape[:axis], size, *x.shape[axis + 1 :])
    return Tensor(stablehlo.pad(x.value, e.constant(0, x.dtype).value, low, high, interior), x.dtype, shape)


@lowers(aten.select_scatter.default)
def select_scatter(e: Emitter, result: TensorType, x: Tensor, source: Tensor, dim: int, index: int) -> Tensor:
    """x with x[..., index, ...] replaced."""
    axis = axis_of(x, dim)
    position = index % x.shape[axis]
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    return slice_scatter(e, result, x, e.reshape(source, shape), axis, position, position + 1)


@lowers(aten.tril.default)
def tril(e: Emitter, result: TensorType, x: Tensor, diagonal: int = 0) -> Tensor:
    """Zero above the diagonal."""
    return e.select(_offset_compares(e, x, "LE", diagonal), x, e.constant(0, x.dtype, x.shape))


@lowers(aten.triu.default)
def triu(e: Emitter, result: TensorType, x: Tensor, diagonal: int = 0) -> Tensor:
    """Zero below the diagonal."""
    return e.select(_offset_compares(e, x, "GE", diagonal), x, e.constant(0, x.dtype, x.shape))


def _offset_compares(e: Emitter, x: Tensor, direction: str, diagonal: int) -> Tensor:
    rows, columns = e.iota(torch.int32, x.shape, x.rank - 2), e.iota(torch.int32, x.shape, x.rank - 1)
    offset = e.binary(stablehlo.subtract, columns, rows)
    return e.compare(direction, offset, e.constant(diagonal, torch.int32, x.shape))
