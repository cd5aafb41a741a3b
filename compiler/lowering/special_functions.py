"""Functions of mathematics beyond the elementary ones, and of the bits of numbers."""

from __future__ import annotations

import math
from typing import Any

import torch
from jaxlib.mlir.dialects import chlo, stablehlo

from ...errors import LoweringError
from ...runtime.artifacts import TensorType
from .arithmetic import copy_sign, operands
from .emitter import Emitter
from .registry import lowers
from .tensor import Tensor, is_float

aten = torch.ops.aten


@lowers(aten.digamma.default)
def digamma(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """Derivative of the logarithm of the gamma function; an infinity of the other sign at a zero."""
    (operand,) = operands(e, result, x)
    zero, infinity = (e.constant(number, operand.dtype, operand.shape) for number in (0, math.inf))
    pole = copy_sign(e, infinity, e.unary(stablehlo.negate, operand))
    value = e.rounded_once(chlo.digamma, operand)
    return e.convert(e.select(e.compare("EQ", operand, zero), pole, value), result.dtype)


@lowers(aten.polygamma.default)
def polygamma(e: Emitter, result: TensorType, order: int, x: Tensor) -> Tensor:
    """Digamma, or its first derivative."""
    if order == 0:
        return digamma(e, result, x)
    if order > 1:
        raise LoweringError(f"polygamma of order {order} has no lowering: only orders 0 and 1 have one")
    (operand,) = operands(e, result, x)
    return e.convert(_trigamma(e, operand), result.dtype)


def _trigamma(e: Emitter, x: Tensor) -> Tensor:
    """Reflected below one half, moved up by six and expanded asymptotically (ATen trigamma)."""

    def number(value: float) -> Tensor:
        return e.constant(value, x.dtype, x.shape)

    def minus(first: Tensor, second: Tensor) -> Tensor:
        return e.binary(stablehlo.subtract, first, second)

    reflected = e.compare("LT", x, number(0.5))
    sine = e.rounded_once(stablehlo.sine, e.multiply(number(math.pi), x))
    reflection = e.unary(stablehlo.negate, e.divide(number(math.pi**2), e.multiply(sine, sine)))
    total = e.select(reflected, reflection, number(0))
    place = e.select(reflected, minus(number(1), x), x)
    for _ in range(6):
        total = e.add(total, e.divide(number(1), e.multiply(place, place)))
        place = e.add(place, number(1))
    inverse = e.divide(number(1), e.multiply(place, place))
    tail = minus(number(1 / 30), e.multiply(inverse, number(1 / 42)))
    tail = e.multiply(inverse, minus(number(1 / 6), e.multiply(inverse, tail)))
    half = e.divide(number(1), e.multiply(number(2), place))
    total = e.add(total, e.divide(e.add(e.add(number(1), half), tail), place))
    return e.select(reflected, e.unary(stablehlo.negate, total), total)


@lowers(aten.nextafter.default)
def nextafter(e: Emitter, result: TensorType, x: Tensor, towards: Tensor) -> Tensor:
    """The neighbouring number of the same type in a direction."""
    first, second = (e.operand(one, result.dtype, result.shape) for one in (x, towards))
    return e.binary(chlo.next_after, first, second)


@lowers(aten.hypot.default)
def hypot(e: Emitter, result: TensorType, x: Tensor, y: Tensor) -> Tensor:
    """sqrt(x^2 + y^2), scaled by the larger one so that nothing overflows on the way."""
    first, second = (e.unary(stablehlo.abs, one) for one in operands(e, result, x, y))
    larger, smaller = e.binary(stablehlo.maximum, first, second), e.binary(stablehlo.minimum, first, second)
    zero, one, infinity = (e.constant(number, first.dtype, first.shape) for number in (0, 1, math.inf))
    ratio = e.divide(smaller, larger)
    length = e.multiply(larger, e.rounded_once(stablehlo.sqrt, e.add(one, e.multiply(ratio, ratio))))
    length = e.select(e.compare("EQ", larger, zero), zero, length)
    infinite = e.binary(stablehlo.or_, e.compare("EQ", first, infinity), e.compare("EQ", second, infinity))
    return e.convert(e.select(infinite, infinity, length), result.dtype)


@lowers(aten.signbit.default)
def signbit(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """True where the sign bit is set, also of zeros and NaN."""
    if not is_float(x.dtype):
        return e.compare("LT", x, e.constant(0, x.dtype, x.shape))
    bits: Any = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.dtype.itemsize]
    return e.compare("LT", e.bitcast(x, bits, x.shape), e.constant(0, bits, x.shape))


@lowers(aten.angle.default)
def angle(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """pi for negative numbers, otherwise zero; NaN stays."""
    (operand,) = operands(e, result, x)
    zero, half_turn = (e.constant(number, operand.dtype, operand.shape) for number in (0, math.pi))
    turned = e.select(e.compare("LT", operand, zero), half_turn, zero)
    return e.convert(e.select(e.compare("NE", operand, operand), operand, turned), result.dtype)
