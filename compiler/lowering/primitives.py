"""PyTorch's ``prims``, which registered decompositions of aten operators are written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxlib.mlir.dialects import stablehlo

from ...runtime.artifacts import TensorType
from . import arithmetic, comparison, pointwise, reduction, shape, special_functions
from .emitter import Emitter
from .registry import LOWERINGS, lowers
from .tensor import Tensor

aten = torch.ops.aten
prims = torch.ops.prims

REUSED = (arithmetic, comparison, pointwise, reduction, shape, special_functions)
"""The families whose rules the table below looks up."""

SAME_AS_ATEN = {
    prims.abs.default: aten.abs.default,
    prims.acos.default: aten.acos.default,
    prims.acosh.default: aten.acosh.default,
    prims.add.default: aten.add.Tensor,
    prims.amax.default: aten.amax.default,
    prims.amin.default: aten.amin.default,
    prims.asin.default: aten.asin.default,
    prims.asinh.default: aten.asinh.default,
    prims.atan.default: aten.atan.default,
    prims.atanh.default: aten.atanh.default,
    prims.atan2.default: aten.atan2.default,
    prims.bitwise_and.default: aten.bitwise_and.Tensor,
    prims.bitwise_not.default: aten.bitwise_not.default,
    prims.bitwise_or.default: aten.bitwise_or.Tensor,
    prims.bitwise_xor.default: aten.bitwise_xor.Tensor,
    prims.cat.default: aten.cat.default,
    prims.ceil.default: aten.ceil.default,
    prims.cos.default: aten.cos.default,
    prims.cosh.default: aten.cosh.default,
    prims.digamma.default: aten.digamma.default,
    prims.div.default: aten.div.Tensor,
    prims.eq.default: aten.eq.Tensor,
    prims.erf.default: aten.erf.default,
    prims.erf_inv.default: aten.erfinv.default,
    prims.erfc.default: aten.erfc.default,
    prims.exp.default: aten.exp.default,
    prims.exp2.default: aten.exp2.default,
    prims.expm1.default: aten.expm1.default,
    prims.floor.default: aten.floor.default,
    prims.fmod.default: aten.fmod.Tensor,
    prims.ge.default: aten.ge.Tensor,
    prims.gt.default: aten.gt.Tensor,
    prims.le.default: aten.le.Tensor,
    prims.lgamma.default: aten.lgamma.default,
    prims.log.default: aten.log.default,
    prims.log1p.default: aten.log1p.default,
    prims.log2.default: aten.log2.default,
    prims.lt.default: aten.lt.Tensor,
    prims.maximum.default: aten.maximum.default,
    prims.minimum.default: aten.minimum.default,
    prims.mul.default: aten.mul.Tensor,
    prims.ne.default: aten.ne.Tensor,
    prims.neg.default: aten.neg.default,
    prims.pow.default: aten.pow.Tensor_Tensor,
    prims.reciprocal.default: aten.reciprocal.default,
    prims.remainder.default: aten.remainder.Tensor,
    prims.rev.default: aten.flip.default,
    prims.round.default: aten.round.default,
    prims.rsqrt.default: aten.rsqrt.default,
    prims.shift_left.default: aten.bitwise_left_shift.Tensor,
    prims.shift_right_arithmetic.default: aten.bitwise_right_shift.Tensor,
    prims.sign.default: aten.sign.default,
    prims.sin.default: aten.sin.default,
    prims.sinh.default: aten.sinh.default,
    prims.sqrt.default: aten.sqrt.default,
    prims.sub.default: aten.sub.Tensor,
    prims.tan.default: aten.tan.default,
    prims.tanh.default: aten.tanh.default,
    prims.transpose.default: aten.permute.default,
    prims.trunc.default: aten.trunc.default,
    prims.where.default: aten.where.self,
}
for _prim, _overload in SAME_AS_ATEN.items():
    lowers(_prim)(LOWERINGS[_overload])


@lowers(prims.broadcast_in_dim.default)
def broadcast_in_dim(
    e: Emitter, result: TensorType, x: Tensor, shape: Any, broadcast_dimensions: Sequence[int]
) -> Tensor:
    """Dimension i of x becomes ``broadcast_dimensions[i]`` of the result."""
    return e.broadcast(x, result.shape, broadcast_dimensions)


@lowers(prims.squeeze.default, prims.split_dim.default, prims.collapse_view.default, prims.reshape.default)
def reshape(e: Emitter, result: TensorType, x: Tensor, *arguments: Any) -> Tensor:
    """The same elements in row-major order; the result's shape says how."""
    return e.reshape(x, result.shape)


@lowers(prims.sum.default)
def sum_dims(e: Emitter, result: TensorType, x: Tensor, dims: Sequence[int], output_dtype: Any = None) -> Tensor:
    """Sum over dimensions."""
    return reduction.sum_dims(e, result, x, dims)


@lowers(prims.prod.default)
def prod(e: Emitter, result: TensorType, x: Tensor, dims: Sequence[int], output_dtype: Any = None) -> Tensor:
    """Product over dimensions."""
    return reduction.prod(e, result, x, dims)


@lowers(prims.var.default)
def var(
    e: Emitter, result: TensorType, x: Tensor, dims: Sequence[int], correction: float = 1, output_dtype: Any = None
) -> Tensor:
    """Variance over dimensions."""
    return reduction.var(e, result, x, dims, correction)


@lowers(prims.isfinite.default)
def isfinite(e: Emitter, result: TensorType, x: Tensor) -> Tensor:
    """True for numbers that are neither infinite nor NaN."""
    return Tensor(stablehlo.is_finite(x.value), torch.bool, x.shape)
