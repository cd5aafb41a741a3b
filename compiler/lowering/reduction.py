"""Operators that fold dimensions, and running sums."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxlib.mlir.dialects import stablehlo

from ...runtime.artifacts import TensorType
from .emitter import Emitter, Scalar
from .registry import lowers
from .shape import axis_of
from .summation import sum_in_eager_order
from .tensor import Tensor, computation_dtype, is_float

aten = torch.ops.aten

Dims = int | Sequence[int] | None


def axes_of(x: Tensor, dims: Dims) -> list[int]:
    """Sorted axes; None and an empty list mean all."""
    if dims is None or (not isinstance(dims, int) and not dims):
        return list(range(x.rank))
    chosen = [dims] if isinstance(dims, int) else dims
    return sorted({axis_of(x, dim) for dim in chosen}) if x.rank else []


def extreme(dtype: torch.dtype, largest: bool) -> Scalar:
    """The largest or smallest value of a type; infinities for floats."""
    if dtype is torch.bool:
        return largest
    if is_float(dtype):
        return math.inf if largest else -math.inf
    return torch.iinfo(dtype).max if largest else torch.iinfo(dtype).min


def add_up(e: Emitter, x: Tensor, axes: Sequence[int], narrow_source: bool = False) -> Tensor:
    """Sum of a float32, float64 or integer tensor; in eager's order in exact numerics."""
    if e.options.exact and is_float(x.dtype):
        return e.add_zero(sum_in_eager_order(e, x, axes, narrow_source))
    total = e.reduce(x, axes, stablehlo.AddOp, 0)
    # Sums start from zero, so that of -0 is 0; XLA drops a sum of one term, and with it the zero.
    return e.add_zero(total) if math.prod(x.shape[axis] for axis in axes) == 1 else total


@lowers(aten.sum.default, aten.sum.dim_IntList)
def sum_dims(
    e: Emitter, result: TensorType, x: Tensor, dims: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """Sum, accumulated in float32 for narrower floats and rounded once."""
    accumulated = computation_dtype(result.dtype)
    narrow = is_float(x.dtype) and x.dtype.itemsize == 2 and x.dtype is result.dtype
    total = add_up(e, e.convert(x, accumulated), axes_of(x, dims), narrow)
    return e.reshape(e.convert(total, result.dtype), result.shape)


@lowers(aten.mean.default, aten.mean.dim)
def mean(
    e: Emitter, result: TensorType, x: Tensor, dims: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """Sum divided by the count, in float32 for narrower floats."""
    axes = axes_of(x, dims)
    total = add_up(e, e.convert(x, computation_dtype(result.dtype)), axes)
    count = e.constant(math.prod(x.shape[axis] for axis in axes), total.dtype, total.shape)
    return e.reshape(e.convert(e.divide(total, count), result.dtype), result.shape)


@lowers(aten.prod.default, aten.prod.dim_int)
def prod(
    e: Emitter, result: TensorType, x: Tensor, dim: Dims = None, keepdim: bool = False, dtype: Any = None
) -> Tensor:
    """Product."""
    factors = e.convert(x, computation_dtype(result.dtype))
    product = e.reduce(factors, axes_of(x, dim), stablehlo.MulOp, 1)
    return e.reshape(e.convert(product, result.dtype), result.shape)


@lowers(aten.amax.default, aten.max.default)
def amax(e: Emitter, result: TensorType, x: Tensor, dims: Dims = None, keepdim: bool = False) -> Tensor:
    """Largest value; NaN wins."""
    folded = e.reduce(x, axes_of(x, dims), stablehlo.MaxOp, extreme(x.dtype, False))
    return e.reshape(folded, result.shape)


@lowers(aten.amin.default, aten.min.default)
def amin(e: Emitter, result: TensorType, x: Tensor, dims: Dims = None, keepdim: bool = False) -> Tensor:
    """Smallest value; NaN wins."""
    folded = e.reduce(x, axes_of(x, dims), stablehlo.MinOp, extreme(x.dtype, True))
    return e.reshape(folded, result.shape)


@lowers(aten.any.default, aten.any.dim, aten.any.dims)
def any_dims(e: Emitter, result: TensorType, x: Tensor, dims: Dims = None, keepdim: bool = False) -> Tensor:
    """True where one is not zero."""
    folded = e.reduce(e.convert(x, torch.bool), axes_of(x, dims), stablehlo.OrOp, False)
    return e.reshape(e.convert(folded, result.dtype), result.shape)


@lowers(aten.all.default, aten.all.dim, aten.all.dims)
def all_dims(e: Emitter, result: TensorType, x: Tensor, dims: Dims = None, keepdim: bool = False) -> Tensor:
    """True where none is zero."""
    folded = e.reduce(e.convert(x, torch.bool), axes_of(x, dims), stablehlo.AndOp, True)
    return e.reshape(e.convert(folded, result.dtype), result.shape)


def _first_index(e: Emitter, x: Tensor, axis: int, best: Tensor, result: TensorType) -> Tensor:
    """Position of the first NaN along ``axis``, or of the first element equal to ``best``."""
    spread = [kept for kept in range(x.rank) if kept != axis]
    hit = e.compare("EQ", x, e.broadcast(best, x.shape, spread))
    if is_float(x.dtype):
        hit = e.binary(stablehlo.or_, hit, e.compare("NE", x, x))
    position = e.iota(torch.int32, x.shape, axis)
    beyond = e.constant(x.shape[axis], torch.int32, x.shape)
    first = e.reduce(e.select(hit, position, beyond), [axis], stablehlo.MinOp, x.shape[axis])
    return e.reshape(e.convert(first, result.dtype), result.shape)


def _argument(e: Emitter, result: TensorType, x: Tensor, dim: int | None, operation: Any, largest: bool) -> Tensor:
    if dim is None or not x.rank:
        x, dim = e.reshape(x, (math.prod(x.shape),)), 0
    axis = axis_of(x, dim)
    best = e.reduce(x, [axis], operation, extreme(x.dtype, not largest))
    return _first_index(e, x, axis, best, result)


@lowers(aten.argmax.default)
def argmax(e: Emitter, result: TensorType, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """First position of the largest value; NaN wins."""
    return _argument(e, result, x, dim, stablehlo.MaxOp, True)


@lowers(aten.argmin.default)
def argmin(e: Emitter, result: TensorType, x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """First position of the smallest value; NaN wins."""
    return _argument(e, result, x, dim, stablehlo.MinOp, False)


def _with_index(
    e: Emitter, result: Sequence[TensorType], x: Tensor, dim: int, operation: Any, largest: bool
) -> tuple[Tensor, Tensor]:
    source = x if x.rank else e.reshape(x, (1,))
    axis = axis_of(source, dim)
    best = e.reduce(source, [axis], operation, extreme(x.dtype, not largest))
    return e.reshape(best, result[0].shape), _first_index(e, source, axis, best, result[1])


@lowers(aten.max.dim)
def max_dim(
    e: Emitter, result: Sequence[TensorType], x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Largest value and its first position."""
    return _with_index(e, result, x, dim, stablehlo.MaxOp, True)


@lowers(aten.min.dim)
def min_dim(
    e: Emitter, result: Sequence[TensorType], x: Tensor, dim: int, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    """Smallest value and its first position."""
    return _with_index(e, result, x, dim, stablehlo.MinOp, False)


def _as_vector(e: Emitter, x: Tensor) -> Tensor:
    return x if x.rank else e.reshape(x, (1,))


def _shifted(e: Emitter, x: Tensor, axis: int) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """x minus its maximum along an axis, and a function that spreads a folded tensor over that axis again."""
    spread = [kept for kept in range(x.rank) if kept != axis]
    largest = e.reduce(x, [axis], stablehlo.MaxOp, -math.inf)
    return (
        e.binary(stablehlo.subtract, x, e.broadcast(largest, x.shape, spread)),
        lambda folded: e.broadcast(folded, x.shape, spread),
    )


@lowers(aten._softmax.default)
def softmax(
    e: Emitter, result: TensorType, x: Tensor, dim: int, half_to_float: bool = False, dtype: Any = None
) -> Tensor:
    """exp(x - max) over its sum, in float32 for narrower floats."""
    source = _as_vector(e, e.convert(x, computation_dtype(result.dtype)))
    axis = axis_of(source, dim)
    shifted, spread = _shifted(e, source, axis)
    powers = e.rounded_once(stablehlo.exponential, shifted)
    return e.reshape(e.convert(e.divide(powers, spread(add_up(e, powers, [axis]))), result.dtype), result.shape)


@lowers(aten._safe_softmax.default)
def safe_softmax(e: Emitter, result: TensorType, x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Softmax, but zero where every value along the dimension is minus infinity."""
    source = _as_vector(e, e.convert(x, computation_dtype(result.dtype)))
    vector = TensorType(result.dtype, source.shape)
    axis = axis_of(source, dim)
    masked = e.compare("EQ", source, e.constant(-math.inf, source.dtype, source.shape))
    all_masked = e.reduce(masked, [axis], stablehlo.AndOp, True)
    spread = e.broadcast(all_masked, source.shape, [kept for kept in range(source.rank) if kept != axis])
    zero = e.constant(0, result.dtype, source.shape)
    return e.reshape(e.select(spread, zero, softmax(e, vector, source, axis)), result.shape)


@lowers(aten._log_softmax.default)
def log_softmax(e: Emitter, result: TensorType, x: Tensor, dim: int, half_to_float: bool = False) -> Tensor:
    """x - max - log(sum(exp(x - max)))."""
    source = _as_vector(e, e.convert(x, computation_dtype(result.dtype)))
    axis = axis_of(source, dim)
    shifted, spread = _shifted(e, source, axis)
    total = e.rounded_once(stablehlo.log, add_up(e, e.rounded_once(stablehlo.exponential, shifted), [axis]))
    return e.reshape(e.convert(e.binary(stablehlo.subtract, shifted, spread(total)), result.dtype), result.shape)


@lowers(aten.cumsum.default)
def cumsum(e: Emitter, result: TensorType, x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """Running sum, by doubling strides: log2(n) shifted additions."""
    if not x.rank:
        return e.add_zero(e.convert(x, result.dtype))
    wide = torch.float64 if is_float(result.dtype) and e.options.float64 else computation_dtype(result.dtype)
    total = e.convert(x, wide)
    axis = axis_of(x, dim)
    stride = 1
    while stride < x.shape[axis]:
        low, high = [0] * x.rank, [0] * x.rank
        low[axis], high[axis] = stride, -stride
        total = e.add(total, e.pad(total, low, high, 0))
        stride *= 2
    return e.convert(e.add_zero(total), result.dtype)


def _running_extreme(
    e: Emitter, result: Sequence[TensorType], x: Tensor, dim: int, direction: str, largest: bool
) -> tuple[Tensor, Tensor]:
    """Extreme so far and its position, the last among equals, by doubling strides; NaN wins and stays."""
    source = x if x.rank else e.reshape(x, (1,))
    axis = axis_of(source, dim)
    value, place = source, e.iota(torch.int32, source.shape, axis)
    fill = extreme(x.dtype, not largest)
    stride = 1
    while stride < source.shape[axis]:
        low, high = [0] * source.rank, [0] * source.rank
        low[axis], high[axis] = stride, -stride
        earlier, earlier_place = e.pad(value, low, high, fill), e.pad(place, low, high, 0)
        wins = e.compare(direction, value, earlier)
        if is_float(x.dtype):
            is_nan = e.compare("NE", value, value)
            earlier_is_number = e.compare("EQ", earlier, earlier)
            wins = e.binary(stablehlo.or_, is_nan, e.binary(stablehlo.and_, wins, earlier_is_number))
        value, place = e.select(wins, value, earlier), e.select(wins, place, earlier_place)
        stride *= 2
    return e.reshape(value, result[0].shape), e.reshape(e.convert(place, result[1].dtype), result[1].shape)


@lowers(aten.cummax.default)
def cummax(e: Emitter, result: Sequence[TensorType], x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Running maximum and its last position."""
    return _running_extreme(e, result, x, dim, "GE", True)


@lowers(aten.cummin.default)
def cummin(e: Emitter, result: Sequence[TensorType], x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Running minimum and its last position."""
    return _running_extreme(e, result, x, dim, "LE", False)


@lowers(aten.logcumsumexp.default)
def logcumsumexp(e: Emitter, result: TensorType, x: Tensor, dim: int) -> Tensor:
    """Logarithm of the running sum of exponentials, by doubling strides."""
    total = e.convert(x, computation_dtype(result.dtype))
    if not x.rank:
        return e.convert(total, result.dtype)
    axis = axis_of(x, dim)
    stride = 1
    while stride < x.shape[axis]:
        low, high = [0] * x.rank, [0] * x.rank
        low[axis], high[axis] = stride, -stride
        total = _log_add_exp(e, total, e.pad(total, low, high, -math.inf))
        stride *= 2
    return e.convert(total, result.dtype)


def _log_add_exp(e: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """log(exp(x) + exp(y)); two equal infinities stay themselves."""
    larger, smaller = e.binary(stablehlo.maximum, x, y), e.binary(stablehlo.minimum, x, y)
    powers = e.rounded_once(stablehlo.exponential, e.binary(stablehlo.subtract, smaller, larger))
    together = e.add(larger, e.rounded_once(stablehlo.log_plus_one, powers))
    infinite = e.compare("EQ", e.unary(stablehlo.abs, larger), e.constant(math.inf, x.dtype, x.shape))
    return e.select(infinite, larger, together)


def _moments(e: Emitter, x: Tensor, axes: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Mean with the axes dropped, and the sum of squared distances from it."""
    spread = [axis for axis in range(x.rank) if axis not in axes]
    total = add_up(e, x, axes)
    count = e.constant(math.prod(x.shape[axis] for axis in axes), x.dtype, total.shape)
    average = e.divide(total, count)
    distance = e.binary(stablehlo.subtract, x, e.broadcast(average, x.shape, spread))
    return average, add_up(e, e.multiply(distance, distance), axes)


def variance_and_mean(e: Emitter, x: Tensor, axes: Sequence[int], correction: float | None) -> tuple[Tensor, Tensor]:
    """Variance and mean over the axes, divided by count - correction (1 if None)."""
    average, squares = _moments(e, x, axes)
    freedom = math.prod(x.shape[axis] for axis in axes) - (1 if correction is None else correction)
    return e.divide(squares, e.constant(max(freedom, 0), x.dtype, squares.shape)), average


@lowers(aten.var.correction)
def var(
    e: Emitter, result: TensorType, x: Tensor, dims: Dims = None, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    """Variance, in two passes."""
    variance, _ = variance_and_mean(e, e.convert(x, computation_dtype(x.dtype)), axes_of(x, dims), correction)
    return e.reshape(e.convert(variance, result.dtype), result.shape)


@lowers(aten.std.correction)
def std(
    e: Emitter, result: TensorType, x: Tensor, dims: Dims = None, correction: float | None = None, keepdim: bool = False
) -> Tensor:
    """Standard deviation."""
    variance, _ = variance_and_mean(e, e.convert(x, computation_dtype(x.dtype)), axes_of(x, dims), correction)
    return e.reshape(e.convert(e.rounded_once(stablehlo.sqrt, variance), result.dtype), result.shape)


@lowers(aten.var_mean.correction)
def var_mean(
    e: Emitter,
    result: Sequence[TensorType],
    x: Tensor,
    dims: Dims = None,
    correction: float | None = None,
    keepdim: bool = False,
) -> tuple[Tensor, Tensor]:
    """Variance and mean."""
    moments = variance_and_mean(e, e.convert(x, computation_dtype(x.dtype)), axes_of(x, dims), correction)
    first, second = (e.convert(one, like.dtype) for one, like in zip(moments, result, strict=True))
    return e.reshape(first, result[0].shape), e.reshape(second, result[1].shape)
