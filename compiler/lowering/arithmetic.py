"""Sums, products, quotients, remainders, powers."""

from __future__ import annotations

from typing import Any

import torch
from jaxlib.mlir.dialects import stablehlo

from ...errors import LoweringError
from ...runtime.artifacts import TensorType
from .emitter import Emitter, Operand
from .registry import lowers
from .tensor import Tensor, computation_dtype, is_float

aten = torch.ops.aten


def operands(e: Emitter, result: TensorType, *values: Operand) -> list[Tensor]:
    """Broadcast to the result's shape, in the type that PyTorch computes in.

    Tensors are rounded to the result's type first, as ATen does; numbers and 0-d tensors are not.
    """
    dtype = computation_dtype(result.dtype)
    promoted = [e.convert(one, result.dtype) if isinstance(one, Tensor) and one.rank else one for one in values]
    return [e.operand(value, dtype, result.shape) for value in promoted]


def rounded_operands(e: Emitter, result: TensorType, *values: Operand) -> list[Tensor]:
    """Like ``operands``, but rounded to the result's type first: ATen does that for numbers and 0-d tensors too,
    except in products and quotients.
    """
    return operands(e, result, *[e.operand(value, result.dtype, result.shape) for value in values])


@lowers(aten.add.Tensor, aten.add.Scalar)
def add(e: Emitter, result: TensorType, a: Operand, b: Operand, alpha: float = 1) -> Tensor:
    """a + alpha * b; on booleans, or."""
    x, y = rounded_operands(e, result, a, b)
    if alpha != 1:
        return e.convert(e.multiply_add(e.constant(alpha, y.dtype, y.shape), y, x), result.dtype)
    if result.dtype is torch.bool:
        return e.binary(stablehlo.or_, x, y)
    for one, other in ((x, y), (y, x)):
        if e.is_zero(other):
            return e.convert(e.add_zero(one), result.dtype)
    return e.convert(e.add(x, y), result.dtype)


@lowers(aten.sub.Tensor, aten.sub.Scalar)
def sub(e: Emitter, result: TensorType, a: Operand, b: Operand, alpha: float = 1) -> Tensor:
    """a - alpha * b."""
    if alpha != 1:
        return add(e, result, a, b, -alpha)
    x, y = rounded_operands(e, result, a, b)
    return e.convert(e.binary(stablehlo.subtract, x, y), result.dtype)


@lowers(aten.rsub.Tensor, aten.rsub.Scalar)
def rsub(e: Emitter, result: TensorType, a: Operand, b: Operand, alpha: float = 1) -> Tensor:
    """b - alpha * a."""
    return sub(e, result, b, a, alpha)


@lowers(aten.mul.Tensor, aten.mul.Scalar)
def mul(e: Emitter, result: TensorType, a: Operand, b: Operand) -> Tensor:
    """a * b; on booleans, and."""
    x, y = operands(e, result, a, b)
    if result.dtype is torch.bool:
        return e.binary(stablehlo.and_, x, y)
    return e.convert(e.multiply(x, y), result.dtype)


@lowers(aten.square.default)
def square(e: Emitter, result: TensorType, a: Tensor) -> Tensor:
    """a * a."""
    return mul(e, result, a, a)


@lowers(aten.addcmul.default)
def addcmul(e: Emitter, result: TensorType, a: Tensor, b: Tensor, c: Tensor, value: float = 1) -> Tensor:
    """a + value * b * c."""
    x, y, z, scale = operands(e, result, a, b, c, value)
    return e.convert(e.multiply_add(e.multiply(scale, y), z, x), result.dtype)


@lowers(aten.addcdiv.default)
def addcdiv(e: Emitter, result: TensorType, a: Tensor, b: Tensor, c: Tensor, value: float = 1) -> Tensor:
    """a + value * b / c."""
    x, y, z, scale = operands(e, result, a, b, c, value)
    return e.convert(e.add(x, e.divide(e.multiply(scale, y), z)), result.dtype)


@lowers(aten.lerp.Scalar, aten.lerp.Tensor)
def lerp(e: Emitter, result: TensorType, start: Tensor, end: Tensor, weight: Operand) -> Tensor:
    """start + weight * (end - start), from the nearer end (ATen lerp)."""
    x, y, w = operands(e, result, start, end, weight)
    difference = e.binary(stablehlo.subtract, y, x)
    one = e.constant(1, w.dtype, w.shape)
    from_start = e.multiply_add(w, difference, x)
    from_end = e.multiply_add(e.binary(stablehlo.subtract, w, one), difference, y)
    near_start = e.compare("LT", e.unary(stablehlo.abs, w), e.constant(0.5, w.dtype, w.shape))
    return e.convert(e.select(near_start, from_start, from_end), result.dtype)


@lowers(aten.div.Tensor, aten.div.Scalar)
def div(e: Emitter, result: TensorType, a: Operand, b: Operand) -> Tensor:
    """True division."""
    x, y = operands(e, result, a, b)
    return e.convert(e.divide(x, y), result.dtype)


@lowers(aten.reciprocal.default)
def reciprocal(e: Emitter, result: TensorType, a: Tensor) -> Tensor:
    """1 / a."""
    return div(e, result, 1, a)


@lowers(aten.div.Tensor_mode, aten.div.Scalar_mode)
def div_mode(e: Emitter, result: TensorType, a: Operand, b: Operand, rounding_mode: str | None = None) -> Tensor:
    """Division rounded to the floor or towards zero."""
    if rounding_mode is None:
        return div(e, result, a, b)
    if rounding_mode == "floor":
        return floor_divide(e, result, a, b)
    x, y = operands(e, result, a, b)
    quotient = e.divide(x, y)
    return e.convert(truncate(e, quotient) if is_float(x.dtype) else quotient, result.dtype)


@lowers(aten.floor_divide.default, aten.floor_divide.Scalar)
def floor_divide(e: Emitter, result: TensorType, a: Operand, b: Operand) -> Tensor:
    """Floor of the quotient, computed from the remainder as ATen does."""
    x, y = operands(e, result, a, b)
    if not is_float(x.dtype):
        return _integer_floor_divide(e, x, y)
    zero, one, half = (e.constant(number, x.dtype, x.shape) for number in (0.0, 1.0, 0.5))
    remainder = e.binary(stablehlo.remainder, x, y)
    quotient = e.divide(e.binary(stablehlo.subtract, x, remainder), y)
    quotient = e.select(_signs_differ(e, remainder, y), e.binary(stablehlo.subtract, quotient, one), quotient)
    floored = e.unary(stablehlo.floor, quotient)
    above = e.compare("GT", e.binary(stablehlo.subtract, quotient, floored), half)
    floored = e.select(above, e.add(floored, one), floored)
    signed_zero = copy_sign(e, zero, e.divide(x, y))
    floored = e.select(e.compare("EQ", quotient, zero), signed_zero, floored)
    by_zero = e.compare("EQ", y, zero)
    return e.convert(e.select(by_zero, e.divide(x, y), floored), result.dtype)


def floor_or_true_quotient(e: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """x / y of floats; of integers its floor."""
    return e.divide(x, y) if is_float(x.dtype) else _integer_floor_divide(e, x, y)


def _integer_floor_divide(e: Emitter, x: Tensor, y: Tensor) -> Tensor:
    quotient = e.binary(stablehlo.divide, x, y)
    if not x.dtype.is_signed:
        return quotient
    remainder = e.binary(stablehlo.remainder, x, y)
    lower = e.binary(stablehlo.subtract, quotient, e.constant(1, x.dtype, x.shape))
    return e.select(_signs_differ(e, remainder, y), lower, quotient)


def _signs_differ(e: Emitter, remainder: Tensor, divisor: Tensor) -> Tensor:
    """True where a non-zero remainder and the divisor have different signs."""
    zero = e.constant(0, remainder.dtype, remainder.shape)
    different = e.compare("NE", e.compare("LT", remainder, zero), e.compare("LT", divisor, zero))
    return e.binary(stablehlo.and_, e.compare("NE", remainder, zero), different)


@lowers(aten.remainder.Tensor, aten.remainder.Scalar, aten.remainder.Scalar_Tensor)
def remainder(e: Emitter, result: TensorType, a: Operand, b: Operand) -> Tensor:
    """Remainder with the sign of the divisor."""
    x, y = rounded_operands(e, result, a, b)
    rest = e.binary(stablehlo.remainder, x, y)
    if not x.dtype.is_signed:
        return rest
    return e.convert(e.select(_signs_differ(e, rest, y), e.add(rest, y), rest), result.dtype)


@lowers(aten.fmod.Tensor, aten.fmod.Scalar)
def fmod(e: Emitter, result: TensorType, a: Operand, b: Operand) -> Tensor:
    """Remainder with the sign of the dividend."""
    x, y = rounded_operands(e, result, a, b)
    return e.convert(e.binary(stablehlo.remainder, x, y), result.dtype)


@lowers(aten.pow.Tensor_Scalar)
def pow_scalar(e: Emitter, result: TensorType, base: Tensor, exponent: float) -> Tensor:
    """base ** number; ATen spells small powers as products and roots, each rounded to the result's type."""
    if exponent == 0:
        return e.constant(1, result.dtype, result.shape)
    if exponent == 1:
        return e.convert(base, result.dtype)
    if exponent in (2, 3):
        squared = mul(e, result, base, base)
        return squared if exponent == 2 else mul(e, result, squared, base)
    (x,) = operands(e, result, base)
    if not is_float(x.dtype):
        return e.convert(_integer_power(e, x, int(exponent)), result.dtype)
    if exponent in (0.5, -0.5):
        root = e.convert(e.rounded_once(stablehlo.sqrt, x), result.dtype)
        return root if exponent > 0 else div(e, result, 1, root)
    if exponent in (-1, -2):
        return div(e, result, 1, base if exponent == -1 else mul(e, result, base, base))
    return e.convert(power(e, x, e.constant(exponent, x.dtype, x.shape)), result.dtype)


def _integer_power(e: Emitter, x: Tensor, exponent: int) -> Tensor:
    if exponent < 0:
        raise LoweringError(f"integers to the negative power {exponent} are not supported: convert to a float first")
    product = e.constant(1, x.dtype, x.shape)
    while exponent:
        if exponent & 1:
            product = e.binary(stablehlo.multiply, product, x)
        x = e.binary(stablehlo.multiply, x, x)
        exponent >>= 1
    return product


@lowers(aten.pow.Tensor_Tensor, aten.pow.Scalar)
def pow_tensor(e: Emitter, result: TensorType, base: Operand, exponent: Tensor) -> Tensor:
    """base ** exponent, elementwise."""
    x, y = operands(e, result, base, exponent)
    return e.convert(power(e, x, y), result.dtype)


@lowers(aten.atan2.default)
def atan2(e: Emitter, result: TensorType, y: Operand, x: Operand) -> Tensor:
    """Angle of the point (x, y)."""
    first, second = operands(e, result, y, x)
    return e.convert(e.binary(stablehlo.atan2, first, second), result.dtype)


def truncate(e: Emitter, x: Tensor) -> Tensor:
    """Round towards zero."""
    floor, ceil = e.unary(stablehlo.floor, x), e.unary(stablehlo.ceil, x)
    return e.select(e.compare("LT", x, e.constant(0, x.dtype, x.shape)), ceil, floor)


def power(e: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """x ** y; in exact numerics computed in float64 and rounded once."""
    if not e.options.exact or x.dtype is not torch.float32:
        return e.binary(stablehlo.power, x, y)
    wide = e.binary(stablehlo.power, e.convert(x, torch.float64), e.convert(y, torch.float64))
    return e.convert(wide, torch.float32)


def reciprocal_root(e: Emitter, x: Tensor) -> Tensor:
    """1 / sqrt(x): one instruction, or in exact numerics a correctly rounded root and quotient as on the CPU."""
    if not e.options.exact:
        return e.unary(stablehlo.rsqrt, x)
    return e.divide(e.constant(1, x.dtype, x.shape), e.barrier(e.rounded_once(stablehlo.sqrt, x)))


def copy_sign(e: Emitter, magnitude: Tensor, sign: Tensor) -> Tensor:
    """The magnitude of one float tensor with the sign bit of another, zeros and NaN included."""
    bits: Any = {2: torch.int16, 4: torch.int32, 8: torch.int64}[sign.dtype.itemsize]
    negative = e.compare("LT", e.bitcast(sign, bits, sign.shape), e.constant(0, bits, sign.shape))
    positive = e.unary(stablehlo.abs, magnitude)
    return e.select(negative, e.unary(stablehlo.negate, positive), positive)
