"""Writing, adding and joining at places that integers point at."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from jaxlib.mlir.dialects import stablehlo

from ...errors import LoweringError
from ...runtime.artifacts import TensorType
from .arithmetic import floor_or_true_quotient
from .emitter import Emitter, Operand, Scalar
from .positions import (
    Combine,
    accumulate,
    along,
    as_vectors,
    diagonal_indices,
    overwrite,
    positions,
    scatter_at,
)
from .reduction import extreme
from .registry import lowers
from .shape import axis_of
from .tensor import Tensor, computation_dtype

aten = torch.ops.aten


def _scatter_along(e: Emitter, x: Tensor, dim: int, index: Tensor, source: Operand, combine: Combine) -> Tensor:
    target, where_to = as_vectors(e, x, index)
    if isinstance(source, Tensor) and source.rank:
        source = e.slice(source, [0] * source.rank, where_to.shape, [1] * source.rank)
    updates = e.operand(source, x.dtype, where_to.shape)
    return e.reshape(scatter_at(e, target, along(e, target, dim, where_to), updates, combine), x.shape)


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
    total = scatter(kept, e.convert(source, dtype), reduction.combine)
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
    at = positions(e, square.shape, diagonal_indices(e, source.shape[-1:], offset))
    updates = e.transpose(e.convert(source, x.dtype), [source.rank - 1, *range(source.rank - 1)])
    written = scatter_at(e, square, at, updates, overwrite)
    return e.transpose(written, [order.index(axis) for axis in range(x.rank)])


@lowers(aten.put.default)
def put(e: Emitter, result: TensorType, x: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """x with elements of the flattened tensor replaced, or increased."""
    flat = e.reshape(x, (math.prod(x.shape),))
    updates = e.reshape(source, index.shape)
    at = positions(e, flat.shape, {0: index})
    return e.reshape(scatter_at(e, flat, at, updates, stablehlo.add if accumulate else overwrite), x.shape)


def _rows_along(e: Emitter, x: Tensor, dim: int, index: Tensor, source: Operand, combine: Combine) -> Tensor:
    """Combine whole slices of one dimension with the source's slices."""
    (target, where_to) = as_vectors(e, x, index)
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
