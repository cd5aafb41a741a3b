"""Reads and writes at computed positions: gathers and scatters, always with int32 indices."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ...errors import LoweringError
from ...runtime.artifacts import TensorType
from .arithmetic import floor_or_true_quotient
from .comparison import where
from .emitter import Emitter, Operand, Scalar
from .reduction import extreme
from .registry import lowers
from .shape import axis_of
from .tensor import Tensor, computation_dtype

aten = torch.ops.aten

Combine = Callable[[ir.Value, ir.Value], ir.Value]


def overwrite(old: ir.Value, new: ir.Value) -> ir.Value:
    """The new value replaces the old one."""
    return new


def accumulate(old: ir.Value, new: ir.Value) -> ir.Value:
    """The new value is added."""
    return stablehlo.add(old, new)


@dataclass(frozen=True)
class Positions:
    """Where a gather or scatter works.

    ``vectors`` is int32 [*batch, len(axes)]: one coordinate for each indexed axis of the operand.
    ``batch_start`` is where the batch dimensions stand among the result's.
    """

    vectors: Tensor
    axes: tuple[int, ...]
    batch_start: int

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the index."""
        return self.vectors.shape[:-1]

    def result_shape(self, operand: Sequence[int]) -> tuple[int, ...]:
        """Shape of what is read or written."""
        window = [size for axis, size in enumerate(operand) if axis not in self.axes]
        return (*window[: self.batch_start], *self.batch, *window[self.batch_start :])

    def window_axes(self, operand: Sequence[int]) -> list[int]:
        """Dimensions of the result that are not batch dimensions."""
        count = len(self.result_shape(operand))
        return [axis for axis in range(count) if not self.batch_start <= axis < self.batch_start + len(self.batch)]


def positions(e: Emitter, shape: Sequence[int], indices: dict[int, Tensor]) -> Positions:
    """Positions from one integer tensor for each indexed axis, broadcast together; negative ones count from the end.

    The batch dimensions stand where the indexed axes stood, or first when those are not adjacent.
    """
    axes = tuple(sorted(indices))
    batch = torch.broadcast_shapes(*[indices[axis].shape for axis in axes])
    columns = [e.reshape(e.expand(_wrapped(e, indices[axis], shape[axis]), batch), (*batch, 1)) for axis in axes]
    adjacent = axes == tuple(range(axes[0], axes[0] + len(axes)))
    return Positions(e.concatenate(columns, len(batch)), axes, axes[0] if adjacent else 0)


def _wrapped(e: Emitter, index: Tensor, size: int) -> Tensor:
    narrow = e.convert(index, torch.int32)
    if not index.dtype.is_signed:
        return narrow
    below = e.compare("LT", narrow, e.constant(0, torch.int32, narrow.shape))
    return e.select(below, e.add(narrow, e.constant(size, torch.int32, narrow.shape)), narrow)


def gather_at(e: Emitter, x: Tensor, at: Positions) -> Tensor:
    """Read the slices at the positions."""
    if x.dtype is torch.bfloat16 and at.batch_start:
        # XLA:CPU turns such a gather around itself, and then has no dot of bfloat16 that reads it.
        first = gather_at(e, x, replace(at, batch_start=0))
        batch, window = range(len(at.batch)), range(len(at.batch), first.rank)
        before, after = window[: at.batch_start], window[at.batch_start :]
        return e.transpose(first, [*before, *batch, *after])
    sizes = [1 if axis in at.axes else size for axis, size in enumerate(x.shape)]
    count = len(at.batch)
    window = [size for axis, size in enumerate(x.shape) if axis not in at.axes]
    numbers = stablehlo.GatherDimensionNumbers.get(
        list(range(count, count + len(window))), list(at.axes), [], [], list(at.axes), count
    )
    value = stablehlo.gather(x.value, at.vectors.value, numbers, sizes)
    before = range(count, count + at.batch_start)
    after = range(count + at.batch_start, count + len(window))
    return e.transpose(Tensor(value, x.dtype, (*at.batch, *window)), [*before, *range(count), *after])


def scatter_at(e: Emitter, x: Tensor, at: Positions, updates: Tensor, combine: Combine) -> Tensor:
    """Write the slices at the positions; a later duplicate sees an earlier one."""
    numbers = stablehlo.ScatterDimensionNumbers.get(
        at.window_axes(x.shape), list(at.axes), [], [], list(at.axes), len(at.batch)
    )
    result = stablehlo.ScatterOp([x.value.type], [x.value], at.vectors.value, [updates.value], numbers)
    element = e.type(x.dtype, ())
    block = result.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        stablehlo.return_([combine(block.arguments[0], block.arguments[1])])
    return Tensor(result.results[0], x.dtype, x.shape)


def _integer_indices(indices: Sequence[Tensor | None]) -> dict[int, Tensor]:
    chosen = {axis: index for axis, index in enumerate(indices) if index is not None}
    if any(index.dtype in (torch.bool, torch.uint8) for index in chosen.values()):
        raise LoweringError(
            "indexing with a boolean mask has a shape that depends on data: use torch.where, or integer positions"
        )
    return chosen


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(e: Emitter, result: TensorType, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """x[i, :, j, ...] with integer tensors."""
    return gather_at(e, x, positions(e, x.shape, _integer_indices(indices)))


@lowers(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(
    e: Emitter,
    result: TensorType,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    """x with x[i, :, j, ...] replaced, or increased; a boolean mask selects where one value a row is given."""
    mask = indices[0]
    if len(indices) == 1 and mask is not None and mask.dtype is torch.bool:
        return _masked_put(e, result, x, mask, values, accumulate)
    at = positions(e, x.shape, _integer_indices(indices))
    updates = e.operand(values, x.dtype, at.result_shape(x.shape))
    return scatter_at(e, x, at, updates, stablehlo.add if accumulate else overwrite)


def _masked_put(e: Emitter, result: TensorType, x: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    window = x.shape[mask.rank :]
    if values.rank > len(window) and values.shape[: values.rank - len(window)] != (1,):
        raise LoweringError(f"assigning {values.shape[0]} rows through a boolean mask depends on data: use torch.where")
    row = e.reshape(values, values.shape[max(values.rank - len(window), 0) :])
    spread = e.broadcast(mask, x.shape, range(mask.rank))
    value = e.operand(row, x.dtype, x.shape)
    return where(e, result, spread, e.add(x, value) if accumulate else value, x)


@lowers(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(e: Emitter, result: TensorType, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Elements whose positions along two dimensions differ by the offset, as a new last dimension."""
    first, second = axis_of(x, dim1), axis_of(x, dim2)
    others = [axis for axis in range(x.rank) if axis not in (first, second)]
    square = e.transpose(x, [first, second, *others])
    read = gather_at(e, square, positions(e, square.shape, _diagonal_indices(e, result.shape[-1:], offset)))
    return e.transpose(read, [*range(1, read.rank), 0])


def _diagonal_indices(e: Emitter, shape: Sequence[int], offset: int) -> dict[int, Tensor]:
    """Rows and columns of a diagonal of the first two dimensions."""
    position = e.iota(torch.int32, shape, 0)
    shifted = e.add(position, e.constant(abs(offset), torch.int32, position.shape))
    rows, columns = (position, shifted) if offset >= 0 else (shifted, position)
    return {0: rows, 1: columns}


@lowers(aten.index_select.default)
def index_select(e: Emitter, result: TensorType, x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices of one dimension, in the index's order."""
    if not x.rank:
        return x
    axis = axis_of(x, dim)
    return gather_at(e, x, positions(e, x.shape, {axis: e.reshape(index, result.shape[axis : axis + 1])}))


@lowers(aten.embedding.default)
def embedding(
    e: Emitter,
    result: TensorType,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table."""
    return gather_at(e, weight, positions(e, weight.shape, {0: indices}))


def _along(e: Emitter, x: Tensor, dim: int, index: Tensor) -> Positions:
    """One position for each element of the index, which replaces the coordinate along ``dim``."""
    axis = axis_of(x, dim)
    coordinates = {other: e.iota(torch.int32, index.shape, other) for other in range(x.rank) if other != axis}
    coordinates[axis] = e.convert(index, torch.int32)
    columns = [e.reshape(coordinates[other], (*index.shape, 1)) for other in range(x.rank)]
    return Positions(e.concatenate(columns, index.rank), tuple(range(x.rank)), 0)


def _as_vectors(e: Emitter, *tensors: Tensor) -> list[Tensor]:
    """0-d tensors as vectors of one element, so that they have a dimension to index."""
    return [tensor if tensor.rank else e.reshape(tensor, (1,)) for tensor in tensors]


@lowers(aten.gather.default)
def gather(e: Emitter, result: TensorType, x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    """x[i, index[i, j], ...] along one dimension."""
    source, where_to = _as_vectors(e, x, index)
    return e.reshape(gather_at(e, source, _along(e, source, dim, where_to)), result.shape)


def _scatter_along(e: Emitter, x: Tensor, dim: int, index: Tensor, source: Operand, combine: Combine) -> Tensor:
    target, where_to = _as_vectors(e, x, index)
    if isinstance(source, Tensor) and source.rank:
        source = e.slice(source, [0] * source.rank, where_to.shape, [1] * source.rank)
    updates = e.operand(source, x.dtype, where_to.shape)
    return e.reshape(scatter_at(e, target, _along(e, target, dim, where_to), updates, combine), x.shape)


def _reduce_along(e: Emitter, x: Tensor, dim: int, index: Tensor, source: Operand, combine: Combine) -> Tensor:
    """Combine elements along one dimension; 16-bit floats in float32, rounded once (ATen scatter_reduce)."""
    dtype = computation_dtype(x.dtype)
    return e.convert(_scatter_along(e, e.convert(x, dtype), dim, index, source, combine), x.dtype)


@lowers(aten.scatter.src, aten.scatter.value)
def scatter(e: Emitter, result: TensorType, x: Tensor, dim: int, index: Tensor, source: Operand) -> Tensor:
    """x with elements along one dimension replaced."""
    return _scatter_along(e, x, dim, index, source, overwrite)


@lowers(aten.scatter_add.default)
def scatter_add(e: Emitter, result: TensorType, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """x with elements along one dimension increased."""
    return _reduce_along(e, x, dim, index, source, accumulate)


@dataclass(frozen=True)
class Reduction:
    """How several values at one position are joined, and the value that changes none of them."""

    combine: Combine
    neutral: Callable[[torch.dtype], Scalar]


REDUCTIONS: dict[str, Reduction] = {
    "sum": Reduction(stablehlo.add, lambda dtype: 0),
    "mean": Reduction(stablehlo.add, lambda dtype: 0),
    "prod": Reduction(stablehlo.multiply, lambda dtype: 1),
    "amax": Reduction(stablehlo.maximum, lambda dtype: extreme(dtype, False)),
    "amin": Reduction(stablehlo.minimum, lambda dtype: extreme(dtype, True)),
}
"""By the names of ``scatter_reduce`` and ``index_reduce``."""

Scatter = Callable[[Tensor, Operand, Combine], Tensor]


def _reduced(e: Emitter, x: Tensor, source: Tensor, name: str, include_self: bool, scatter: Scatter) -> Tensor:
    """x with the source joined into it at the positions that ``scatter`` writes to."""
    if name not in REDUCTIONS:
        raise LoweringError(f"reduce={name!r} is unknown: expected one of {list(REDUCTIONS)}")
    reduction, dtype = REDUCTIONS[name], computation_dtype(x.dtype)
    wide = e.convert(x, dtype)
    kept = wide if include_self else scatter(wide, reduction.neutral(dtype), overwrite)
    total = scatter(kept, source, reduction.combine)
    if name != "mean":
        return e.convert(total, x.dtype)
    counts = scatter(e.constant(int(include_self), dtype, x.shape), 1, accumulate)
    divisor = e.binary(stablehlo.maximum, counts, e.constant(1, dtype, x.shape))
    mean = e.convert(floor_or_true_quotient(e, total, divisor), x.dtype)
    untouched = e.compare("EQ", counts, e.constant(int(include_self), dtype, x.shape))
    return e.select(untouched, x, mean)


@lowers(aten.scatter_reduce.two)
def scatter_reduce(
    e: Emitter,
    result: TensorType,
    x: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool = True,
) -> Tensor:
    """x with elements along one dimension combined with the source."""
    return _reduced(
        e, x, source, reduce, include_self, lambda into, value, how: _scatter_along(e, into, dim, index, value, how)
    )


@lowers(aten.scatter.reduce, aten.scatter.value_reduce)
def scatter_with(
    e: Emitter, result: TensorType, x: Tensor, dim: int, index: Tensor, source: Operand, reduce: str
) -> Tensor:
    """x with elements along one dimension increased by, or multiplied with, the source."""
    combine = {"add": stablehlo.add, "multiply": stablehlo.multiply}[reduce]
    return _reduce_along(e, x, dim, index, source, combine)


@lowers(aten.index_reduce.default)
def index_reduce(
    e: Emitter,
    result: TensorType,
    x: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool = True,
) -> Tensor:
    """x with slices of one dimension combined with those of the source."""
    return _reduced(
        e, x, source, reduce, include_self, lambda into, value, how: _rows_along(e, into, dim, index, value, how)
    )


@lowers(aten.diagonal_scatter.default)
def diagonal_scatter(
    e: Emitter, result: TensorType, x: Tensor, source: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Tensor:
    """x with a diagonal, see ``diagonal``, replaced."""
    first, second = axis_of(x, dim1), axis_of(x, dim2)
    order = [first, second, *(axis for axis in range(x.rank) if axis not in (first, second))]
    square = e.transpose(x, order)
    at = positions(e, square.shape, _diagonal_indices(e, source.shape[-1:], offset))
    updates = e.transpose(e.convert(source, x.dtype), [source.rank - 1, *range(source.rank - 1)])
    written = scatter_at(e, square, at, updates, overwrite)
    return e.transpose(written, [order.index(axis) for axis in range(x.rank)])


@lowers(aten.take.default)
def take(e: Emitter, result: TensorType, x: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened tensor."""
    flat = e.reshape(x, (math.prod(x.shape),))
    return gather_at(e, flat, positions(e, flat.shape, {0: index}))


@lowers(aten.put.default)
def put(e: Emitter, result: TensorType, x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """x with elements of the flattened tensor replaced, or increased."""
    flat = e.reshape(x, (math.prod(x.shape),))
    updates = e.reshape(source, index.shape)
    at = positions(e, flat.shape, {0: index})
    return e.reshape(scatter_at(e, flat, at, updates, stablehlo.add if accumulate else overwrite), x.shape)


def _rows_along(e: Emitter, x: Tensor, dim: int, index: Tensor, source: Operand, combine: Combine) -> Tensor:
    """Combine whole slices of one dimension with the source's slices."""
    (target, where_to) = _as_vectors(e, x, index)
    at = positions(e, target.shape, {axis_of(target, dim): where_to})
    updates = (
        source
        if isinstance(source, Tensor) and source.rank
        else e.operand(source, x.dtype, at.result_shape(target.shape))
    )
    return e.reshape(scatter_at(e, target, at, updates, combine), x.shape)


@lowers(aten.index_copy.default)
def index_copy(e: Emitter, result: TensorType, x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """x with slices of one dimension replaced."""
    return _rows_along(e, x, dim, index, source, overwrite)


@lowers(aten.index_add.default)
def index_add(
    e: Emitter, result: TensorType, x: Tensor, dim: int, index: Tensor, source: Tensor, alpha: Scalar = 1
) -> Tensor:
    """x with slices of one dimension increased by alpha times the source."""
    scaled = source if alpha == 1 else e.multiply(source, e.constant(alpha, source.dtype, source.shape))
    return _rows_along(e, x, dim, index, scaled, accumulate)


@lowers(aten.index_fill.int_Scalar, aten.index_fill.int_Tensor)
def index_fill(e: Emitter, result: TensorType, x: Tensor, dim: int, index: Tensor, value: Operand) -> Tensor:
    """x with slices of one dimension set to one value."""
    filler: Any = e.operand(value, x.dtype, ()) if isinstance(value, Tensor) else value
    return _rows_along(e, x, dim, index, filler, overwrite)
