"""Functions of one value: roots, exponentials, activations, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from jaxlib.mlir.dialects import chlo, stablehlo

from ...runtime.artifacts import TensorType
from .arithmetic import copy_sign, operands, power, reciprocal_root, truncate
from .emitter import Emitter, Operand
from .registry import lowers
from .tensor import Tensor, is_float

aten = torch.ops.aten


def _apply(e: Emitter, result: TensorType, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """Compute in the type PyTorch computes in and round once."""
    (operand,) = operands(e, result, x)
    return e.convert(function(operand), result.dtype)


def _direct(overload: Any, operation: Callable[..., Any]) -> None:
    """Register an operator that is one StableHLO operation."""

    @lowers(overload)
    def rule(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
        return _apply(e, result, lambda operand: e.rounded_once(operation, operand), x)


DIRECT = {
    aten.exp.default: stablehlo.exponential,
    aten.expm1.default: stablehlo.exponential_minus_one,
    aten.log.default: stablehlo.log,
    aten.log1p.default: stablehlo.log_plus_one,
    aten.sqrt.default: stablehlo.sqrt,
    aten.tanh.default: stablehlo.tanh,
    aten.sin.default: stablehlo.sine,
    aten.cos.default: stablehlo.cosine,
    aten.tan.default: stablehlo.tan,
    aten.asin.default: chlo.asin,
    aten.acos.default: chlo.acos,
    aten.atan.default: chlo.atan,
    aten.sinh.default: chlo.sinh,
    aten.cosh.default: chlo.cosh,
    aten.asinh.default: chlo.asinh,
    aten.acosh.default: chlo.acosh,
    aten.atanh.default: chlo.atanh,
    aten.lgamma.default: chlo.lgamma,
    aten.erfc.default: chlo.erfc,
    aten.erfinv.default: chlo.erf_inv,
}
for _overload, _operation in DIRECT.items():
    _direct(_overload, _operation)


def _rounding(overload: Any, operation: Callable[..., Any]) -> None:
    """Register a rounding operator: integers pass through."""

    @lowers(overload)
    def rule(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
        return _apply(e, result, lambda operand: e.unary(operation, operand), x) if is_float(x.dtype) else x


ROUNDING = {
    aten.floor.default: stablehlo.floor,
    aten.ceil.default: stablehlo.ceil,
    aten.round.default: stablehlo.round_nearest_even,
}
for _overload, _operation in ROUNDING.items():
    _rounding(_overload, _operation)


@lowers(aten.neg.default)
def neg(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """-x."""
    return e.unary(stablehlo.negate, x)


@lowers(aten.trunc.default)
def trunc(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """Round towards zero."""
    return _apply(e, result, lambda operand: truncate(e, operand), x) if is_float(x.dtype) else x


@lowers(aten.abs.default)
def absolute(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """Absolute value; unsigned integers and booleans pass through."""
    return _apply(e, result, lambda operand: e.unary(stablehlo.abs, operand), x) if x.dtype.is_signed else x


@lowers(aten.sign.default, aten.sgn.default)
def sign(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """-1, 0 or 1; zero for NaN."""
    zero = e.constant(0, x.dtype, x.shape)
    positive = e.convert(e.compare("GT", x, zero), torch.int8)
    negative = e.convert(e.compare("LT", x, zero), torch.int8)
    return e.convert(e.binary(stablehlo.subtract, positive, negative), result.dtype)


@lowers(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(e: Emitter, result: TensorType, magnitude: Tensor, sign_of: Operand) -> Tensor:
    """Magnitude of one, sign of the other."""
    x, y = operands(e, result, magnitude, sign_of)
    return e.convert(copy_sign(e, x, y), result.dtype)


@lowers(aten.rsqrt.default)
def rsqrt(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """1 / sqrt(x)."""
    return _apply(e, result, lambda operand: reciprocal_root(e, operand), x)


@lowers(aten.exp2.default)
def exp2(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """2 ** x."""
    (operand,) = operands(e, result, x)
    return e.convert(power(e, e.constant(2, operand.dtype, operand.shape), operand), result.dtype)


@lowers(aten.log2.default)
def log2(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """Logarithm to base 2."""
    return _apply(e, result, lambda y: _scaled_log(e, y, math.log(2)), x)


@lowers(aten.log10.default)
def log10(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """Logarithm to base 10."""
    return _apply(e, result, lambda y: _scaled_log(e, y, math.log(10)), x)


def _scaled_log(e: Emitter, x: Tensor, divisor: float) -> Tensor:
    return e.divide(e.rounded_once(stablehlo.log, x), e.constant(divisor, x.dtype, x.shape))


def logistic(e: Emitter, x: Tensor) -> Tensor:
    """1 / (1 + exp(-x))."""
    one = e.constant(1, x.dtype, x.shape)
    return e.divide(one, e.add(one, e.rounded_once(stablehlo.exponential, e.unary(stablehlo.negate, x))))


@lowers(aten.sigmoid.default)
def sigmoid(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """Logistic function."""
    return _apply(e, result, lambda operand: logistic(e, operand), x)


@lowers(aten.silu.default)
def silu(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """x / (1 + exp(-x)), as one quotient like ATen."""
    (operand,) = operands(e, result, x)
    one = e.constant(1, operand.dtype, operand.shape)
    denominator = e.add(one, e.rounded_once(stablehlo.exponential, e.unary(stablehlo.negate, operand)))
    return e.convert(e.divide(operand, denominator), result.dtype)


@lowers(aten.relu.default)
def relu(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """max(x, 0); NaN and -0 stay."""
    zero = e.constant(0, x.dtype, x.shape)
    return e.select(e.compare("LT", x, zero), zero, x)


@lowers(aten.leaky_relu.default)
def leaky_relu(e: Emitter, result: TensorType, x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x where positive, else slope * x."""
    operand, zero, slope = operands(e, result, x, 0, negative_slope)
    positive = e.compare("GT", operand, zero)
    return e.convert(e.select(positive, operand, e.multiply(operand, slope)), result.dtype)


@lowers(aten.softplus.default)
def softplus(e: Emitter, result: TensorType, x: Tensor, beta: float = 1, threshold: float = 20) -> Tensor:
    """log(1 + exp(beta x)) / beta, x itself above the threshold."""
    operand, scale, limit = operands(e, result, x, beta, threshold)
    scaled = e.multiply(operand, scale)
    smooth = e.divide(e.rounded_once(stablehlo.log_plus_one, e.rounded_once(stablehlo.exponential, scaled)), scale)
    return e.convert(e.select(e.compare("GT", scaled, limit), operand, smooth), result.dtype)


@lowers(aten.gelu.default)
def gelu(e: Emitter, result: TensorType, x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution function, or its tanh approximation (Hendrycks and Gimpel, 2016)."""
    operand, half, one = operands(e, result, x, 0.5, 1)
    if approximate == "tanh":
        cube = e.multiply(e.multiply(operand, operand), operand)
        cubic = e.multiply(e.constant(0.044715, operand.dtype, operand.shape), cube)
        beta = e.constant(math.sqrt(2 / math.pi), operand.dtype, operand.shape)
        shape = e.rounded_once(stablehlo.tanh, e.multiply(beta, e.add(operand, cubic)))
    else:
        shape = error_function(e, e.multiply(operand, e.constant(math.sqrt(0.5), operand.dtype, operand.shape)))
    return e.convert(e.multiply(e.multiply(half, operand), e.add(one, shape)), result.dtype)


@lowers(aten.erf.default)
def erf(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """Error function."""
    return _apply(e, result, lambda operand: error_function(e, operand), x)


def error_function(e: Emitter, x: Tensor) -> Tensor:
    """erf of a float32 or float64 tensor."""
    return e.rounded_once(chlo.erf, x)
