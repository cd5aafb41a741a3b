"""Means and maxima of moving windows, and the gradient of the means."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from torch._ops import OpOverload

from ...runtime.artifacts import TensorType
from .emitter import Emitter
from .reduction import extreme
from .registry import lowers
from .tensor import Tensor, computation_dtype, is_float

aten = torch.ops.aten


def _spatial(numbers: int | Sequence[int], count: int) -> list[int]:
    listed = [numbers] if isinstance(numbers, int) else list(numbers)
    return listed * count if len(listed) == 1 else listed


def _leading(numbers: Sequence[int], rank: int, fill: int) -> list[int]:
    """Numbers for every dimension, ``fill`` for those in front of the spatial ones."""
    return [fill] * (rank - len(numbers)) + list(numbers)


def reduce_windows(
    e: Emitter,
    operands: Sequence[Tensor],
    initial: Sequence[Tensor],
    size: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[tuple[int, int]],
    fold: Callable[[list[Tensor], list[Tensor]], Sequence[Tensor]],
) -> list[Tensor]:
    """Fold windows over the last dimensions of tensors of one shape, which are folded together.

    ``fold`` takes 0-d tensors so far and 0-d tensors to take in. The padding holds the initial values.
    """
    rank, count = operands[0].rank, len(size)
    shape = list(operands[0].shape)
    for axis, window, stride, step, (low, high) in zip(
        range(rank - count, rank), size, strides, dilation, padding, strict=True
    ):
        shape[axis] = (shape[axis] + low + high - step * (window - 1) - 1) // stride + 1
    pairs = [(0, 0)] * (rank - count) + list(padding)
    result = stablehlo.ReduceWindowOp(
        [e.type(one.dtype, shape) for one in operands],
        [one.value for one in operands],
        [one.value for one in initial],
        _leading(size, rank, 1),
        window_strides=_leading(strides, rank, 1),
        window_dilations=_leading(dilation, rank, 1),
        padding=e.integer_pairs(pairs),
    )
    elements = [e.type(one.dtype, ()) for one in operands]
    block = result.regions[0].blocks.append(*elements, *elements)
    with ir.InsertionPoint(block):
        inside = [Tensor(value, one.dtype, ()) for value, one in zip(block.arguments, [*operands] * 2, strict=True)]
        folded = fold(inside[: len(operands)], inside[len(operands) :])
        stablehlo.return_([one.value for one in folded])
    return [Tensor(value, one.dtype, tuple(shape)) for value, one in zip(result.results, operands, strict=True)]


def _behind(
    sizes: Sequence[int],
    outputs: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilation: Sequence[int],
    low: Sequence[int],
) -> list[tuple[int, int]]:
    """Padding in front and behind with which so many windows fit exactly; negative where they do not reach the end."""
    return [
        (before, (count - 1) * stride + step * (length - 1) + 1 - size - before)
        for size, count, length, stride, step, before in zip(
            sizes, outputs, window, strides, dilation, low, strict=True
        )
    ]


def _cropped(e: Emitter, x: Tensor, padding: Sequence[tuple[int, int]]) -> tuple[Tensor, list[tuple[int, int]]]:
    """The tensor without what negative padding takes away, and the padding that is left."""
    first = x.rank - len(padding)
    for axis, (_, high) in enumerate(padding, first):
        x = e.slice_axis(x, axis, 0, x.shape[axis] + min(high, 0))
    return x, [(low, max(high, 0)) for low, high in padding]


def _sums(e: Emitter, x: Tensor, size: Sequence[int], strides: Sequence[int], padding: Any) -> Tensor:
    x, padding = _cropped(e, x, padding)
    zero = e.constant(0, x.dtype)
    (total,) = reduce_windows(
        e, [x], [zero], size, strides, [1] * len(size), padding, lambda old, new: [e.add(old[0], new[0])]
    )
    return total


def _divisors(
    e: Emitter,
    like: Tensor,
    sizes: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    low: Sequence[int],
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """How many elements each window of ``like`` counts."""
    if divisor_override is not None:
        return e.constant(divisor_override, like.dtype, like.shape)
    product = e.constant(1, like.dtype, like.shape)
    first = like.rank - len(window)
    for axis, size, length, stride, before in zip(range(first, like.rank), sizes, window, strides, low, strict=True):
        starts = [index * stride - before for index in range(like.shape[axis])]
        ends = [min(start + length, size + before) for start in starts]
        if not count_include_pad:
            starts, ends = [max(start, 0) for start in starts], [min(end, size) for end in ends]
        counts = torch.tensor([end - start for start, end in zip(starts, ends, strict=True)], dtype=like.dtype)
        product = e.multiply(product, e.broadcast(e.constant_tensor(counts), like.shape, [axis]))
    return product


def _avg_pool(
    count: int,
    e: Emitter,
    result: TensorType,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Tensor:
    """Mean of windows over the last ``count`` dimensions."""
    window, low = _spatial(kernel_size, count), _spatial(padding, count)
    strides = _spatial(stride, count) if stride else window
    sizes = x.shape[x.rank - count :]
    source = e.convert(x, computation_dtype(result.dtype))
    ends = _behind(sizes, result.shape[x.rank - count :], window, strides, [1] * count, low)
    total = _sums(e, source, window, strides, ends)
    divisor = _divisors(e, total, sizes, window, strides, low, count_include_pad, divisor_override)
    return e.convert(e.divide(total, divisor), result.dtype)


def _avg_pool_backward(
    count: int,
    e: Emitter,
    result: TensorType,
    gradient: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: int | Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Tensor:
    """Each window's gradient over its divisor, added up over the windows that an element lies in."""
    window, low = _spatial(kernel_size, count), _spatial(padding, count)
    strides = _spatial(stride, count) if stride else window
    first = x.rank - count
    sizes = x.shape[first:]
    change = e.convert(gradient, computation_dtype(result.dtype))
    divisor = _divisors(e, change, sizes, window, strides, low, count_include_pad, divisor_override)
    shares = e.divide(change, divisor)
    before = [length - 1 - pad for length, pad in zip(window, low, strict=True)]
    spread = [
        size + length - 1 - start - ((moves - 1) * stride + 1)
        for size, length, start, moves, stride in zip(sizes, window, before, shares.shape[first:], strides, strict=True)
    ]
    placed = _spaced(e, shares, before, spread, strides)
    return e.convert(_sums(e, placed, window, [1] * count, [(0, 0)] * count), result.dtype)


def _spaced(e: Emitter, x: Tensor, low: Sequence[int], high: Sequence[int], strides: Sequence[int]) -> Tensor:
    """The last dimensions with zeros in front, behind and between their elements; negative amounts crop."""
    lows, highs = _leading(low, x.rank, 0), _leading(high, x.rank, 0)
    gaps = _leading([stride - 1 for stride in strides], x.rank, 0)
    shape = tuple(
        size + max(size - 1, 0) * gap + before + after
        for size, gap, before, after in zip(x.shape, gaps, lows, highs, strict=True)
    )
    return Tensor(stablehlo.pad(x.value, e.constant(0, x.dtype).value, lows, highs, gaps), x.dtype, shape)


def _max_pool_with_indices(
    count: int,
    e: Emitter,
    result: Sequence[TensorType],
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    ceil_mode: bool = False,
) -> tuple[Tensor, Tensor]:
    """Largest value of each window and its position in the flattened space: the first one, or the last NaN."""
    window, low, step = (_spatial(one, count) for one in (kernel_size, padding, dilation))
    strides = _spatial(stride, count) if stride else window
    sizes = x.shape[x.rank - count :]
    flat = e.iota(torch.int32, (math.prod(sizes),), 0)
    position = e.broadcast(e.reshape(flat, sizes), x.shape, range(x.rank - count, x.rank))
    ends = _behind(sizes, result[0].shape[x.rank - count :], window, strides, step, low)
    (source, left), (place, _) = _cropped(e, x, ends), _cropped(e, position, ends)
    initial = [e.constant(extreme(x.dtype, False), x.dtype), e.constant(torch.iinfo(torch.int32).max, torch.int32)]
    value, index = reduce_windows(
        e, [source, place], initial, window, strides, step, left, lambda old, new: _better(e, old, new)
    )
    return value, e.convert(index, result[1].dtype)


def _better(e: Emitter, old: Sequence[Tensor], new: Sequence[Tensor]) -> list[Tensor]:
    """The larger value with its position: among equals the first position, among NaN the last."""
    later = e.compare("GT", new[1], old[1])
    wins = e.binary(
        stablehlo.or_,
        e.compare("GT", new[0], old[0]),
        e.binary(stablehlo.and_, e.compare("EQ", new[0], old[0]), e.unary(stablehlo.not_, later)),
    )
    if is_float(old[0].dtype):
        old_is_nan, new_is_nan = e.compare("NE", old[0], old[0]), e.compare("NE", new[0], new[0])
        last_nan = e.binary(stablehlo.or_, e.unary(stablehlo.not_, old_is_nan), later)
        wins = e.binary(stablehlo.or_, wins, e.binary(stablehlo.and_, new_is_nan, last_nan))
    return [e.select(wins, mine, other) for mine, other in zip(new, old, strict=True)]


def _register(count: int, mean: OpOverload, mean_backward: OpOverload, maximum: OpOverload) -> None:
    """The rules for windows over the last ``count`` dimensions."""

    @lowers(mean)
    def avg_pool(e: Emitter, result: TensorType, x: Tensor, *arguments: Any, **keywords: Any) -> Tensor:
        return _avg_pool(count, e, result, x, *arguments, **keywords)

    @lowers(mean_backward)
    def avg_pool_backward(
        e: Emitter, result: TensorType, gradient: Tensor, x: Tensor, *arguments: Any, **keywords: Any
    ) -> Tensor:
        return _avg_pool_backward(count, e, result, gradient, x, *arguments, **keywords)

    @lowers(maximum)
    def max_pool(
        e: Emitter, result: Sequence[TensorType], x: Tensor, *arguments: Any, **keywords: Any
    ) -> tuple[Tensor, Tensor]:
        return _max_pool_with_indices(count, e, result, x, *arguments, **keywords)


_register(2, aten.avg_pool2d.default, aten.avg_pool2d_backward.default, aten.max_pool2d_with_indices.default)
_register(3, aten.avg_pool3d.default, aten.avg_pool3d_backward.default, aten.max_pool3d_with_indices.default)
