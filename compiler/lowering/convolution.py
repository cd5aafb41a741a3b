"""Convolutions over one, two or three dimensions, and their gradients."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxlib.mlir.dialects import stablehlo

from ...runtime.artifacts import TensorType
from .emitter import Emitter
from .reduction import add_up
from .registry import lowers
from .tensor import Tensor, computation_dtype

aten = torch.ops.aten


@dataclass(frozen=True)
class Window:
    """How a kernel moves, each sequence with one number for each spatial dimension.

    ``spacing`` inserts positions between the elements of the operand, ``dilation`` between those of the kernel.
    """

    strides: Sequence[int]
    padding: Sequence[tuple[int, int]]
    spacing: Sequence[int]
    dilation: Sequence[int]


def _ending_at(
    size: Sequence[int],
    kernel: Sequence[int],
    output: Sequence[int],
    low: Sequence[int],
    strides: Sequence[int],
    spacing: Sequence[int],
    dilation: Sequence[int],
) -> Window:
    """The window whose padding behind the operand gives exactly the sizes of ``output``."""
    padding = []
    for n, k, o, before, stride, gap, step in zip(size, kernel, output, low, strides, spacing, dilation, strict=True):
        reach = (o - 1) * stride + step * (k - 1) + 1
        padding.append((before, reach - before - ((n - 1) * gap + 1 if n else 0)))
    return Window(strides, padding, spacing, dilation)


def convolve(
    e: Emitter, x: Tensor, kernel: Tensor, window: Window, feature_groups: int = 1, batch_groups: int = 1
) -> Tensor:
    """x [batch, features, *space] with a kernel [output features, features / groups, *space], of one type."""
    space = list(range(2, x.rank))
    numbers = stablehlo.ConvDimensionNumbers.get(0, 1, space, 1, 0, space, 0, 1, space)
    sizes = [
        ((n - 1) * gap + 1 if n else 0) + low + high
        for n, gap, (low, high) in zip(x.shape[2:], window.spacing, window.padding, strict=True)
    ]
    reaches = [step * (k - 1) + 1 for k, step in zip(kernel.shape[2:], window.dilation, strict=True)]
    moves = [max((n - reach) // stride + 1, 0) for n, reach, stride in zip(sizes, reaches, window.strides, strict=True)]
    shape = (x.shape[0] // batch_groups, kernel.shape[0], *moves)
    value = stablehlo.convolution(
        e.type(x.dtype, shape),
        x.value,
        kernel.value,
        numbers,
        feature_groups,
        batch_groups,
        window_strides=list(window.strides),
        padding=e.integer_pairs(window.padding),
        lhs_dilation=list(window.spacing),
        rhs_dilation=list(window.dilation),
    )
    return Tensor(value, x.dtype, shape)


def _exchanged(e: Emitter, kernel: Tensor, groups: int) -> Tensor:
    """The kernel of the transposed convolution: features exchanged within each group, space reversed."""
    first, second, *space = kernel.shape
    grouped = e.reshape(kernel, (groups, first // groups, second, *space))
    order = [0, 2, 1, *range(3, grouped.rank)]
    merged = e.reshape(e.transpose(grouped, order), (groups * second, first // groups, *space))
    return Tensor(stablehlo.reverse(merged.value, list(range(2, merged.rank))), merged.dtype, merged.shape)


def _transposed(
    e: Emitter,
    x: Tensor,
    kernel: Tensor,
    output: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """The transposed convolution with spatial sizes ``output``; kernel [features of x, features / groups, *space]."""
    size = kernel.shape[2:]
    low = [step * (k - 1) - pad for step, k, pad in zip(dilation, size, padding, strict=True)]
    window = _ending_at(x.shape[2:], size, output, low, [1] * len(size), stride, dilation)
    return convolve(e, x, _exchanged(e, kernel, groups), window, groups)


def _direct(
    e: Emitter,
    x: Tensor,
    kernel: Tensor,
    output: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    size = kernel.shape[2:]
    window = _ending_at(x.shape[2:], size, output, padding, stride, [1] * len(size), dilation)
    return convolve(e, x, kernel, window, groups)


def _kernel_gradient(
    e: Emitter,
    x: Tensor,
    gradient: Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> Tensor:
    """Gradient [output features, features / groups, *size] of a direct convolution's kernel.

    Batch and features change places: every feature of x is moved over by every feature of the result's gradient.
    """
    swapped = [1, 0, *range(2, x.rank)]
    images, kernels = e.transpose(x, swapped), e.transpose(gradient, swapped)
    window = _ending_at(images.shape[2:], kernels.shape[2:], size, padding, dilation, [1] * len(size), stride)
    return e.transpose(convolve(e, images, kernels, window, batch_groups=groups), swapped)


def _spatial(numbers: Sequence[int], rank: int) -> list[int]:
    """One number for each spatial dimension; a single one counts for all."""
    return list(numbers) if len(numbers) == rank - 2 else [numbers[0]] * (rank - 2)


@lowers(aten.convolution.default)
def convolution(
    e: Emitter,
    result: TensorType,
    x: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Tensor:
    """Cross-correlation of [batch, features, *space], or its transpose, accumulated in float32."""
    dtype = computation_dtype(result.dtype)
    source, kernel = e.convert(x, dtype), e.convert(weight, dtype)
    steps = [_spatial(one, x.rank) for one in (stride, padding, dilation)]
    made = (_transposed if transposed else _direct)(e, source, kernel, result.shape[2:], *steps, groups)
    if bias is not None:
        made = e.add(made, e.broadcast(e.convert(bias, dtype), made.shape, [1]))
    return e.convert(made, result.dtype)


@lowers(aten.convolution_backward.default)
def convolution_backward(
    e: Emitter,
    result: Sequence[TensorType],
    gradient: Tensor,
    x: Tensor,
    weight: Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of the operand, the kernel and the bias; None where the mask says so."""
    dtype = computation_dtype(gradient.dtype)
    change, source, kernel = (e.convert(one, dtype) for one in (gradient, x, weight))
    steps = [_spatial(one, x.rank) for one in (stride, padding, dilation)]
    back = _direct if transposed else _transposed
    large, small = (change, source) if transposed else (source, change)
    first = back(e, change, kernel, x.shape[2:], *steps, groups) if output_mask[0] else None
    second = _kernel_gradient(e, large, small, weight.shape[2:], *steps, groups) if output_mask[1] else None
    third = add_up(e, change, [0, *range(2, change.rank)]) if output_mask[2] else None
    first, second, third = (one and e.convert(one, gradient.dtype) for one in (first, second, third))
    return first, second, third
