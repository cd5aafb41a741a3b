"""Tensors made from numbers."""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.artifacts import TensorType
from .emitter import Emitter, Scalar
from .registry import lowers
from .tensor import Tensor, computation_dtype, is_float

aten = torch.ops.aten


@lowers(aten.full.default)
def full(e: Emitter, result: TensorType, size: Any, value: Scalar, dtype: Any = None) -> Tensor:
    """One number everywhere."""
    return e.number(value, result.dtype, result.shape)


@lowers(aten.full_like.default, aten.new_full.default)
def full_like(e: Emitter, result: TensorType, x: Tensor, *arguments: Any, dtype: Any = None) -> Tensor:
    """One number everywhere, in the shape given or of x."""
    return e.number(arguments[-1], result.dtype, result.shape)


@lowers(aten.fill.Scalar, aten.fill.Tensor)
def fill(e: Emitter, result: TensorType, x: Tensor, value: Any) -> Tensor:
    """One number everywhere, in the shape of x."""
    return e.operand(value, result.dtype, result.shape)


@lowers(aten.scalar_tensor.default)
def scalar_tensor(e: Emitter, result: TensorType, value: Scalar, dtype: Any = None) -> Tensor:
    """A number as a 0-d tensor."""
    return e.number(value, result.dtype, result.shape)


@lowers(
    aten.zeros.default,
    aten.zeros_like.default,
    aten.new_zeros.default,
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.new_empty.default,
    aten.empty_strided.default,
    aten.empty_permuted.default,
    aten.new_empty_strided.default,
)
def zeros(e: Emitter, result: TensorType, *arguments: Any, dtype: Any = None) -> Tensor:
    """Zeros; memory that PyTorch leaves undefined is zero here."""
    return e.constant(0, result.dtype, result.shape)


@lowers(aten.ones.default, aten.ones_like.default, aten.new_ones.default)
def ones(e: Emitter, result: TensorType, *arguments: Any, dtype: Any = None) -> Tensor:
    """Ones."""
    return e.constant(1, result.dtype, result.shape)


@lowers(aten.arange.default, aten.arange.start, aten.arange.start_step)
def arange(e: Emitter, result: TensorType, *bounds: Scalar, dtype: Any = None) -> Tensor:
    """start, start + step, ... below end."""
    start = bounds[0] if len(bounds) > 1 else 0
    step = bounds[2] if len(bounds) > 2 else 1
    return _progression(e, result, start, step)


@lowers(torch.ops.prims.iota.default)
def iota(e: Emitter, result: TensorType, length: int, start: int, step: int, dtype: Any, requires_grad: bool) -> Tensor:
    """start + i * step."""
    return _progression(e, result, start, step)


def _progression(e: Emitter, result: TensorType, start: Scalar, step: Scalar) -> Tensor:
    dtype = torch.float64 if is_float(result.dtype) and e.options.float64 else computation_dtype(result.dtype)
    values = e.iota(dtype, result.shape, 0)
    if step != 1:
        values = e.multiply(values, e.constant(step, dtype, result.shape))
    if start != 0:
        values = e.add(values, e.constant(start, dtype, result.shape))
    return e.convert(values, result.dtype)
