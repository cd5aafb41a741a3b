"""The order in which PyTorch's CPU kernels add floats, spelled as explicit additions.

Follows ATen's cascade summation (aten/src/ATen/native/cpu/SumKernel.cpp): rows are added in blocks of 16,
block sums in blocks of 16 again, four levels in all; a contiguous row is split into 32-byte vectors and
four interleaved accumulators. Holds for contiguous operands whose reduction one thread does alone
(more than one output, or fewer than 32768 elements).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .emitter import Emitter
from .tensor import Tensor

VECTOR_BYTES = 32
INTERLEAVED = 4
BLOCK = 16
LEVELS = 4


def sum_in_eager_order(e: Emitter, x: Tensor, axes: Sequence[int], narrow_source: bool = False) -> Tensor:
    """Sum over ``axes`` of a float32 or float64 tensor; the axes are dropped.

    ``narrow_source``: the operand was converted from a 16-bit float inside the reduction, where
    ATen adds the two halves of each vector of narrow elements first.
    """
    kept = tuple(size for axis, size in enumerate(x.shape) if axis not in axes)
    groups = _merged(x.shape, axes)
    total = e.reshape(x, [size for size, _ in groups])
    reduced = [axis for axis, (_, is_reduced) in enumerate(groups) if is_reduced]
    if not reduced:
        return e.reshape(total, kept)
    if 0 in x.shape:
        return e.constant(0, x.dtype, kept)
    innermost = reduced.pop()
    total = _sum_axis(e, total, innermost, bool(reduced), narrow_source)
    for axis in reversed(reduced):
        total = _sequential(e, _leading(e, total, axis))
    return e.reshape(total, kept)


def _merged(shape: Sequence[int], axes: Sequence[int]) -> list[tuple[int, bool]]:
    """Adjacent dimensions of one kind merged, dimensions of size one dropped."""
    groups: list[tuple[int, bool]] = []
    for axis, size in enumerate(shape):
        is_reduced = axis in axes
        if size == 1:
            continue
        if groups and groups[-1][1] == is_reduced:
            groups[-1] = (groups[-1][0] * size, is_reduced)
        else:
            groups.append((size, is_reduced))
    return groups


def _sum_axis(e: Emitter, x: Tensor, axis: int, more: bool, narrow_source: bool) -> Tensor:
    lanes = VECTOR_BYTES // x.dtype.itemsize
    inner = math.prod(x.shape[axis + 1 :])
    if axis == x.rank - 1:
        return _sum_rows(e, x, lanes, narrow_source)
    rows = _leading(e, x, axis)
    if more:
        return _interleaved(e, rows)
    columns = rows.rank - 1
    block = INTERLEAVED * lanes if inner >= lanes else INTERLEAVED
    whole = inner // block * block
    parts = [
        _cascade(e, e.slice_axis(rows, columns, 0, whole)),
        _interleaved(e, e.slice_axis(rows, columns, whole, inner)),
    ]
    return e.concatenate([part for part in parts if part.shape[-1]], columns - 1)


def _sum_rows(e: Emitter, x: Tensor, lanes: int, narrow_source: bool) -> Tensor:
    """Sum over the last, contiguous dimension."""
    length = x.shape[-1]
    width = 2 * lanes if narrow_source else lanes
    axis = x.rank - 1
    if length < width:
        return _interleaved(e, _leading(e, x, axis))
    count = length // width
    vectors = e.reshape(e.slice_axis(x, axis, 0, count * width), (*x.shape[:-1], count, width))
    if narrow_source:
        vectors = e.add(e.slice_axis(vectors, axis + 1, 0, lanes), e.slice_axis(vectors, axis + 1, lanes, width))
    partial = _interleaved(e, _leading(e, vectors, axis))
    tail = e.slice_axis(x, axis, count * width, length)
    return _sequential(e, _leading(e, e.concatenate([part for part in (tail, partial) if part.shape[-1]], axis), axis))


def _leading(e: Emitter, x: Tensor, axis: int) -> Tensor:
    """Move one axis to the front."""
    return e.transpose(x, [axis, *(other for other in range(x.rank) if other != axis)])


def _interleaved(e: Emitter, rows: Tensor) -> Tensor:
    """Sum over the leading axis with four accumulators that take every fourth row."""
    size = rows.shape[0]
    count = size // INTERLEAVED
    whole = count * INTERLEAVED
    first = e.slice_axis(rows, 0, whole, size)
    if not count:
        return _sequential(e, first)
    grouped = e.reshape(e.slice_axis(rows, 0, 0, whole), (count, INTERLEAVED, *rows.shape[1:]))
    accumulators = _cascade(e, grouped)
    first = e.concatenate([part for part in (e.slice_axis(accumulators, 0, 0, 1), first) if part.shape[0]], 0)
    first = e.reshape(_sequential(e, first), (1, *rows.shape[1:]))
    return _sequential(e, e.concatenate([first, e.slice_axis(accumulators, 0, 1, INTERLEAVED)], 0))


def _cascade(e: Emitter, rows: Tensor) -> Tensor:
    """Sum over the leading axis in blocks of blocks."""
    sums: list[Tensor] = []
    for _ in range(LEVELS - 1):
        size = rows.shape[0]
        count = size // BLOCK
        if size % BLOCK:
            sums.append(_sequential(e, e.slice_axis(rows, 0, count * BLOCK, size)))
        if not count:
            break
        blocks = e.reshape(e.slice_axis(rows, 0, 0, count * BLOCK), (count, BLOCK, *rows.shape[1:]))
        rows = _sequential(e, _leading(e, blocks, 1))
    else:
        sums.append(_sequential(e, rows))
    total = sums[0]
    for one in sums[1:]:
        total = e.add(total, one)
    return total


def _sequential(e: Emitter, rows: Tensor) -> Tensor:
    """Add the rows of the leading axis one after the other."""
    total = e.select_axis(rows, 0, 0)
    for index in range(1, rows.shape[0]):
        total = e.add(total, e.select_axis(rows, 0, index))
    return total
