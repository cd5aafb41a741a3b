"""Comparisons, logic on booleans, bits of integers, selection and limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from jaxlib.mlir.dialects import stablehlo

from ...runtime.artifacts import TensorType
from .emitter import Emitter, Operand
from .registry import lowers
from .tensor import Tensor, is_float

aten = torch.ops.aten


def common_dtype(*operands: Operand) -> torch.dtype:
    """The type PyTorch compares in: numbers and 0-d tensors only count when they are of a higher kind."""
    return torch.result_type(*[_stand_in(operand) for operand in operands])  # pyright: ignore


def _stand_in(operand: Operand) -> Any:
    return torch.empty((1,) * operand.rank, dtype=operand.dtype) if isinstance(operand, Tensor) else operand


def _comparison(direction: str, *overloads: Any) -> None:
    """Register a comparison: both sides in their common type."""

    @lowers(*overloads)
    def rule(e: Emitter, result: TensorType, a: Tensor, b: Operand) -> Tensor:
        dtype = common_dtype(a, b)
        return e.compare(direction, e.operand(a, dtype, result.shape), e.operand(b, dtype, result.shape))


COMPARISONS = {
    "EQ": (aten.eq.Tensor, aten.eq.Scalar),
    "NE": (aten.ne.Tensor, aten.ne.Scalar),
    "LT": (aten.lt.Tensor, aten.lt.Scalar),
    "LE": (aten.le.Tensor, aten.le.Scalar),
    "GT": (aten.gt.Tensor, aten.gt.Scalar),
    "GE": (aten.ge.Tensor, aten.ge.Scalar),
}
for _direction, _overloads in COMPARISONS.items():
    _comparison(_direction, *_overloads)


def _binary(operation: Callable[..., Any], operand_dtype: torch.dtype | None, *overloads: Any) -> None:
    """Register a bitwise or logical operation; operands in ``operand_dtype``, or in the result's type."""

    @lowers(*overloads)
    def rule(e: Emitter, result: TensorType, a: Operand, b: Operand) -> Tensor:
        dtype = operand_dtype or result.dtype
        return e.binary(operation, e.operand(a, dtype, result.shape), e.operand(b, dtype, result.shape))


_binary(stablehlo.and_, torch.bool, aten.logical_and.default)
_binary(stablehlo.or_, torch.bool, aten.logical_or.default)
_binary(stablehlo.xor, torch.bool, aten.logical_xor.default)
_binary(
    stablehlo.and_, None, aten.bitwise_and.Tensor, aten.bitwise_and.Scalar, aten.__and__.Tensor, aten.__and__.Scalar
)
_binary(stablehlo.or_, None, aten.bitwise_or.Tensor, aten.bitwise_or.Scalar, aten.__or__.Tensor, aten.__or__.Scalar)
_binary(stablehlo.xor, None, aten.bitwise_xor.Tensor, aten.bitwise_xor.Scalar, aten.__xor__.Tensor, aten.__xor__.Scalar)


@lowers(aten.logical_not.default)
def logical_not(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """True where x is zero."""
    return e.unary(stablehlo.not_, e.convert(x, torch.bool))


@lowers(aten.bitwise_not.default)
def bitwise_not(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """All bits inverted; on booleans, not."""
    return e.unary(stablehlo.not_, x)


@lowers(
    aten.bitwise_left_shift.Tensor,
    aten.bitwise_left_shift.Tensor_Scalar,
    aten.__lshift__.Tensor,
    aten.__lshift__.Scalar,
)
def left_shift(e: Emitter, result: TensorType, x: Tensor, amount: Operand) -> Tensor:
    """x * 2**amount, bits falling off the end."""
    value, by = e.operand(x, result.dtype, result.shape), e.operand(amount, result.dtype, result.shape)
    return e.binary(stablehlo.shift_left, value, by)


@lowers(
    aten.bitwise_right_shift.Tensor,
    aten.bitwise_right_shift.Tensor_Scalar,
    aten.__rshift__.Tensor,
    aten.__rshift__.Scalar,
)
def right_shift(e: Emitter, result: TensorType, x: Tensor, amount: Operand) -> Tensor:
    """Arithmetic shift for signed integers, logical for unsigned ones."""
    value, by = e.operand(x, result.dtype, result.shape), e.operand(amount, result.dtype, result.shape)
    signed = result.dtype.is_signed
    return e.binary(stablehlo.shift_right_arithmetic if signed else stablehlo.shift_right_logical, value, by)


@lowers(aten.isnan.default)
def isnan(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """True for NaN; never for integers."""
    return e.compare("NE", x, x) if is_float(x.dtype) else e.constant(False, torch.bool, x.shape)


@lowers(aten.isinf.default)
def isinf(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """True for both infinities; never for integers."""
    if not is_float(x.dtype):
        return e.constant(False, torch.bool, x.shape)
    return e.compare("EQ", e.unary(stablehlo.abs, x), e.constant(float("inf"), x.dtype, x.shape))


@lowers(aten.where.self, aten.where.Scalar, aten.where.ScalarSelf, aten.where.ScalarOther)
def where(e: Emitter, result: TensorType, condition: Tensor, a: Operand, b: Operand) -> Tensor:
    """a where the condition holds, else b."""
    chosen = e.operand(condition, torch.bool, result.shape)
    return e.select(chosen, e.operand(a, result.dtype, result.shape), e.operand(b, result.dtype, result.shape))


@lowers(aten.masked_fill.Scalar, aten.masked_fill.Tensor)
def masked_fill(e: Emitter, result: TensorType, x: Tensor, mask: Tensor, value: Operand) -> Tensor:
    """The value where the mask holds, else x."""
    return where(e, result, mask, value, x)


def larger(e: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """max(x, y); NaN wins."""
    return e.binary(stablehlo.maximum, x, y)


def smaller(e: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """min(x, y); NaN wins."""
    return e.binary(stablehlo.minimum, x, y)


@lowers(aten.maximum.default)
def maximum(e: Emitter, result: TensorType, a: Tensor, b: Tensor) -> Tensor:
    """Elementwise maximum; NaN wins."""
    return larger(e, e.operand(a, result.dtype, result.shape), e.operand(b, result.dtype, result.shape))


@lowers(aten.minimum.default)
def minimum(e: Emitter, result: TensorType, a: Tensor, b: Tensor) -> Tensor:
    """Elementwise minimum; NaN wins."""
    return smaller(e, e.operand(a, result.dtype, result.shape), e.operand(b, result.dtype, result.shape))


@lowers(aten.clamp.default, aten.clamp.Tensor)
def clamp(e: Emitter, result: TensorType, x: Tensor, low: Operand | None = None, high: Operand | None = None) -> Tensor:
    """min(max(x, low), high); NaN stays NaN."""
    limited = e.operand(x, result.dtype, result.shape)
    if low is not None:
        limited = larger(e, limited, e.operand(low, result.dtype, result.shape))
    if high is not None:
        limited = smaller(e, limited, e.operand(high, result.dtype, result.shape))
    return limited


@lowers(aten.clamp_min.default, aten.clamp_min.Tensor)
def clamp_min(e: Emitter, result: TensorType, x: Tensor, low: Operand) -> Tensor:
    """max(x, low)."""
    return clamp(e, result, x, low)


@lowers(aten.clamp_max.default, aten.clamp_max.Tensor)
def clamp_max(e: Emitter, result: TensorType, x: Tensor, high: Operand) -> Tensor:
    """min(x, high)."""
    return clamp(e, result, x, None, high)


def _number_first(e: Emitter, result: TensorType, chosen: Tensor, a: Tensor, b: Tensor) -> Tensor:
    """``chosen`` of two operands, or the one that is a number where the other is NaN."""
    if not is_float(result.dtype):
        return chosen
    x, y = (e.operand(one, result.dtype, result.shape) for one in (a, b))
    or_x = e.select(e.compare("NE", y, y), x, chosen)
    return e.select(e.compare("NE", x, x), y, or_x)


@lowers(aten.fmax.default)
def fmax(e: Emitter, result: TensorType, a: Tensor, b: Tensor) -> Tensor:
    """Elementwise maximum; a number wins over NaN."""
    return _number_first(e, result, maximum(e, result, a, b), a, b)


@lowers(aten.fmin.default)
def fmin(e: Emitter, result: TensorType, a: Tensor, b: Tensor) -> Tensor:
    """Elementwise minimum; a number wins over NaN."""
    return _number_first(e, result, minimum(e, result, a, b), a, b)
