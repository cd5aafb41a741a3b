"""Layer and root-mean-square normalisation, and vector norms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from jaxlib.mlir.dialects import stablehlo

from ...runtime.artifacts import TensorType
from .arithmetic import power, reciprocal_root
from .emitter import Emitter
from .reduction import Dims, add_up, amax, amin, axes_of, variance_and_mean
from .registry import lowers
from .tensor import Tensor, computation_dtype

aten = torch.ops.aten


def _affine(e: Emitter, x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is not None:
        x = e.multiply(x, e.operand(weight, x.dtype, x.shape))
    if bias is not None:
        x = e.add(x, e.operand(bias, x.dtype, x.shape))
    return x


@lowers(aten.native_layer_norm.default)
def native_layer_norm(
    e: Emitter,
    result: Sequence[TensorType],
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    bias: Tensor | None,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """(x - mean) / sqrt(variance + eps) * weight + bias, with the mean and the reciprocal deviation."""
    source = e.convert(x, computation_dtype(x.dtype))
    first = x.rank - len(normalized_shape)
    variance, mean = variance_and_mean(e, source, range(first, x.rank), 0)
    deviation = reciprocal_root(e, e.add(variance, e.constant(eps, variance.dtype, variance.shape)))
    kept = range(first)
    centred = e.binary(stablehlo.subtract, source, e.broadcast(mean, x.shape, kept))
    normal = _affine(e, e.multiply(centred, e.broadcast(deviation, x.shape, kept)), weight, bias)
    outputs = [e.reshape(one, like.shape) for one, like in zip((normal, mean, deviation), result, strict=True)]
    first_output, second, third = (e.convert(one, like.dtype) for one, like in zip(outputs, result, strict=True))
    return first_output, second, third


@lowers(aten._native_batch_norm_legit_no_training.default)
def batch_norm_in_evaluation(
    e: Emitter,
    result: Sequence[TensorType],
    x: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    running_mean: Tensor,
    running_var: Tensor,
    momentum: float,
    eps: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """x [batch, channels, ...] scaled and shifted once, as ATen does; the saved statistics are empty."""
    dtype = computation_dtype(x.dtype)
    mean, variance = e.convert(running_mean, dtype), e.convert(running_var, dtype)
    one = e.constant(1, dtype, mean.shape)
    deviation = e.rounded_once(stablehlo.sqrt, e.add(variance, e.constant(eps, dtype, mean.shape)))
    scale = e.multiply(e.divide(one, deviation), one if weight is None else e.convert(weight, dtype))
    zero = e.constant(0, dtype, mean.shape) if bias is None else e.convert(bias, dtype)
    shift = e.binary(stablehlo.subtract, zero, e.multiply(mean, scale))
    wide_scale, wide_shift = (e.broadcast(one, x.shape, [1]) for one in (scale, shift))
    normal = e.multiply_add(e.convert(x, dtype), wide_scale, wide_shift)
    empty = [e.constant(0, like.dtype, like.shape) for like in result[1:]]
    return e.convert(normal, result[0].dtype), empty[0], empty[1]


@lowers(aten._fused_rms_norm.default)
def fused_rms_norm(
    e: Emitter,
    result: Sequence[TensorType],
    x: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None,
    eps: float | None,
) -> tuple[Tensor, Tensor]:
    """x / sqrt(mean(x^2) + eps) * weight, with the reciprocal root (Zhang and Sennrich, 2019)."""
    source = e.convert(x, computation_dtype(x.dtype))
    first = x.rank - len(normalized_shape)
    total = add_up(e, e.multiply(source, source), range(first, x.rank))
    mean = e.divide(total, e.constant(math.prod(normalized_shape), total.dtype, total.shape))
    epsilon = torch.finfo(source.dtype).eps if eps is None else eps
    scale = reciprocal_root(e, e.add(mean, e.constant(epsilon, mean.dtype, mean.shape)))
    normal = _affine(e, e.multiply(source, e.broadcast(scale, x.shape, range(first))), weight, None)
    return e.convert(normal, result[0].dtype), e.reshape(e.convert(scale, result[1].dtype), result[1].shape)


@lowers(aten.linalg_vector_norm.default)
def vector_norm(
    e: Emitter,
    result: TensorType,
    x: Tensor,
    ord: float = 2,
    dim: Dims = None,
    keepdim: bool = False,
    dtype: Any = None,
) -> Tensor:
    """(sum |x|^p)^(1/p); the largest or smallest |x| for infinite p, the count of non-zeros for p = 0."""
    size = e.unary(stablehlo.abs, e.convert(x, computation_dtype(result.dtype)))
    axes = axes_of(x, dim)
    kept = TensorType(size.dtype, result.shape)
    if math.isinf(ord):
        return e.convert((amax if ord > 0 else amin)(e, kept, size, axes), result.dtype)
    if ord == 0:
        powers = e.convert(e.convert(size, torch.bool), size.dtype)
    elif ord == 1:
        powers = size
    elif ord == 2:
        powers = e.multiply(size, size)
    else:
        powers = power(e, size, e.constant(ord, size.dtype, size.shape))
    total = add_up(e, powers, axes)
    if ord == 2:
        total = e.rounded_once(stablehlo.sqrt, total)
    elif ord not in (0, 1):
        total = power(e, total, e.constant(1 / ord, total.dtype, total.shape))
    return e.reshape(e.convert(total, result.dtype), result.shape)
