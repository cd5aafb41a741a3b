"""Matrix products: every one is a ``dot_general`` that reads transposed operands in place."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxlib.mlir.dialects import stablehlo

from ...runtime.artifacts import TensorType
from .arithmetic import operands
from .emitter import Emitter
from .registry import lowers
from .tensor import Tensor, computation_dtype

aten = torch.ops.aten


def dot(e: Emitter, x: Tensor, y: Tensor, batch: Sequence[int], x_axis: int, y_axis: int) -> Tensor:
    """Contract ``x_axis`` of x with ``y_axis`` of y; the dimensions in ``batch`` run in parallel on both.

    The result is [batch, free of x, free of y]. Operands narrower than float32 are multiplied as they are and
    accumulated in float32, which is the result's type. A transpose that made an operand is read through.
    """
    x, x_axes = _untransposed(x, [*batch, x_axis])
    y, y_axes = _untransposed(y, [*batch, y_axis])
    count = len(batch)
    numbers = stablehlo.DotDimensionNumbers.get(x_axes[:count], y_axes[:count], x_axes[count:], y_axes[count:])
    free = [size for axis, size in enumerate(x.shape) if axis not in x_axes]
    free += [size for axis, size in enumerate(y.shape) if axis not in y_axes]
    shape = (*(x.shape[axis] for axis in x_axes[:count]), *free)
    dtype = computation_dtype(x.dtype)
    return Tensor(stablehlo.dot_general(e.type(dtype, shape), x.value, y.value, numbers), dtype, shape)


def _untransposed(x: Tensor, axes: Sequence[int]) -> tuple[Tensor, list[int]]:
    """The operand before its transpose, with the axes renamed, when its other axes keep their order."""
    if x.source is None:
        return x, list(axes)
    free = [x.permutation[axis] for axis in range(x.rank) if axis not in axes]
    if free != sorted(free):
        return x, list(axes)
    return _untransposed(x.source, [x.permutation[axis] for axis in axes])


def _unwidened(e: Emitter, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """The bfloat16 values behind two float32 operands, if both were widened: products of these are exact too."""
    narrow_x, narrow_y = _narrow(e, x), _narrow(e, y)
    return (x, y) if narrow_x is None or narrow_y is None else (narrow_x, narrow_y)


def _narrow(e: Emitter, x: Tensor) -> Tensor | None:
    if x.source is None:
        return x.narrow
    source = _narrow(e, x.source)
    return None if source is None else e.transpose(source, x.permutation)


def matrix_product(e: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """[*batch, M, K] x [*batch, K, N] in the accumulation type."""
    if x.rank == 2:
        x, y = _unwidened(e, x, y)
    rows = x.rank - 2
    batch = range(rows)
    if x.shape[rows] != 1 or not e.options.pad_single_row_dot:
        return dot(e, x, y, batch, rows + 1, rows)
    padding = [0] * x.rank
    padding[rows] = 1
    padded = dot(e, e.pad(x, [0] * x.rank, padding, 0), y, batch, rows + 1, rows)
    return e.slice_axis(padded, rows, 0, 1)


@lowers(aten.mm.default)
def mm(e: Emitter, result: TensorType, x: Tensor, y: Tensor) -> Tensor:
    """Matrix times matrix."""
    return e.convert(matrix_product(e, x, y), result.dtype)


@lowers(aten.bmm.default)
def bmm(e: Emitter, result: TensorType, x: Tensor, y: Tensor) -> Tensor:
    """One matrix product for each batch index."""
    return e.convert(matrix_product(e, x, y), result.dtype)


@lowers(aten.mv.default)
def mv(e: Emitter, result: TensorType, x: Tensor, y: Tensor) -> Tensor:
    """Matrix times vector."""
    return e.convert(dot(e, x, y, (), 1, 0), result.dtype)


@lowers(aten.dot.default)
def inner(e: Emitter, result: TensorType, x: Tensor, y: Tensor) -> Tensor:
    """Vector times vector."""
    return e.convert(dot(e, x, y, (), 0, 0), result.dtype)


def _accumulate(e: Emitter, result: TensorType, bias: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    """beta * bias + alpha * product, in the accumulation type, rounded once."""
    (addend,) = operands(e, result, bias)
    if alpha != 1:
        product = e.multiply(product, e.constant(alpha, product.dtype, product.shape))
    if beta == 0:
        return e.convert(product, result.dtype)
    if beta != 1:
        addend = e.multiply(addend, e.constant(beta, addend.dtype, addend.shape))
    return e.convert(e.add(addend, product), result.dtype)


@lowers(aten.addmm.default)
def addmm(
    e: Emitter, result: TensorType, bias: Tensor, x: Tensor, y: Tensor, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * bias + alpha * (x @ y)."""
    return _accumulate(e, result, bias, matrix_product(e, x, y), beta, alpha)


@lowers(aten.baddbmm.default)
def baddbmm(
    e: Emitter, result: TensorType, bias: Tensor, x: Tensor, y: Tensor, beta: float = 1, alpha: float = 1
) -> Tensor:
    """beta * bias + alpha * (x @ y) for each batch index."""
    return _accumulate(e, result, bias, matrix_product(e, x, y), beta, alpha)


@lowers(aten.linear.default)
def linear(e: Emitter, result: TensorType, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x @ weight.T + bias."""
    rows = e.reshape(x, (math.prod(x.shape[:-1]), x.shape[-1]))
    product = e.reshape(matrix_product(e, rows, e.transpose(weight, (1, 0))), result.shape)
    if bias is None:
        return e.convert(product, result.dtype)
    return _accumulate(e, result, bias, product, 1, 1)


@lowers(aten.matmul.default)
def matmul(e: Emitter, result: TensorType, x: Tensor, y: Tensor) -> Tensor:
    """NumPy's matmul: vectors are promoted, leading dimensions broadcast."""
    left = e.reshape(x, (1, *x.shape)) if x.rank == 1 else x
    right = e.reshape(y, (*y.shape, 1)) if y.rank == 1 else y
    leading = torch.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    left = e.expand(left, (*leading, *left.shape[-2:]))
    right = e.expand(right, (*leading, *right.shape[-2:]))
    product = matrix_product(e, left, right)
    return e.convert(e.reshape(product, result.shape), result.dtype)


@lowers(aten._int_mm.default)
def int_mm(e: Emitter, result: TensorType, x: Tensor, y: Tensor) -> Tensor:
    """int8 matrices multiplied and added up in int32."""
    return matrix_product(e, e.convert(x, result.dtype), e.convert(y, result.dtype))
