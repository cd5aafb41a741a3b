"""Pooling into a given number of windows, and gradients of maxima, which are sums at the positions of the maxima."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor


def _windows(size: int, count: int) -> list[range]:
    """The elements of each of ``count`` windows: from floor(i n / count) up to ceil((i + 1) n / count)."""
    return [range(index * size // count, -(-(index + 1) * size // count)) for index in range(count)]


def _sum_ranges(x: Tensor, dim: int, ranges: Sequence[range]) -> Tensor:
    return torch.stack([x.narrow(dim, one.start, len(one)).sum(dim) for one in ranges], dim)


def _counts(like: Tensor, first: int, windows: Sequence[Sequence[range]]) -> Tensor:
    """How many elements the windows hold, broadcastable to the pooled tensor."""
    product = torch.ones([1] * like.dim(), dtype=torch.float32)
    for axis, ranges in enumerate(windows, first):
        lengths = torch.tensor([len(one) for one in ranges], dtype=torch.float32)
        product = product * lengths.reshape([-1 if other == axis else 1 for other in range(like.dim())])
    return product


def adaptive_mean(x: Tensor, output_size: Sequence[int]) -> Tensor:
    """Means of ``output_size`` windows over the last dimensions."""
    first = x.dim() - len(output_size)
    windows = [_windows(x.shape[first + index], count) for index, count in enumerate(output_size)]
    total = x.float() if x.dtype.itemsize == 2 else x
    for axis, ranges in enumerate(windows, first):
        total = _sum_ranges(total, axis, ranges)
    return (total / _counts(total, first, windows).to(total.dtype)).to(x.dtype)


def adaptive_mean_backward(gradient: Tensor, x: Tensor, spatial: int) -> Tensor:
    """Each element's share of the gradients of the windows that it lies in."""
    first = x.dim() - spatial
    windows = [_windows(x.shape[axis], gradient.shape[axis]) for axis in range(first, x.dim())]
    change = gradient.float() if x.dtype.itemsize == 2 else gradient
    total = change / _counts(change, first, windows).to(change.dtype)
    for axis, ranges in enumerate(windows, first):
        inside = [[number for number, one in enumerate(ranges) if place in one] for place in range(x.shape[axis])]
        total = _sum_ranges(total, axis, [range(one[0], one[-1] + 1) for one in inside])
    return total.to(x.dtype)


def adaptive_mean_2d_backward(gradient: Tensor, x: Tensor) -> Tensor:
    """``adaptive_mean_backward`` for two dimensions."""
    return adaptive_mean_backward(gradient, x, 2)


def adaptive_mean_3d_backward(gradient: Tensor, x: Tensor) -> Tensor:
    """``adaptive_mean_backward`` for three dimensions."""
    return adaptive_mean_backward(gradient, x, 3)


def adaptive_maximum(x: Tensor, output_size: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Maxima of ``output_size`` windows over the last dimensions, and their positions in the flattened space."""
    first = x.dim() - len(output_size)
    sizes = x.shape[first:]
    values, place = x, torch.arange(math.prod(sizes)).reshape(sizes)
    inside = torch.ones(sizes, dtype=torch.bool)
    for index, count in enumerate(output_size):
        ranges = _windows(sizes[index], count)
        longest = max(len(one) for one in ranges)
        taken = torch.tensor([[min(one.start + step, one.stop - 1) for step in range(longest)] for one in ranges])
        valid = torch.tensor([[step < len(one) for step in range(longest)] for one in ranges])
        axis = 2 * index
        values = values.index_select(first + axis, taken.flatten()).unflatten(first + axis, taken.shape)
        place = place.index_select(axis, taken.flatten()).unflatten(axis, taken.shape)
        inside = inside.index_select(axis, taken.flatten()).unflatten(axis, taken.shape)
        inside = inside & valid.reshape([*taken.shape, *[1] * (inside.dim() - axis - 2)])
    spatial = len(output_size)
    order = [2 * index for index in range(spatial)] + [2 * index + 1 for index in range(spatial)]
    lead = list(range(first))
    values = values.permute(lead + [first + one for one in order]).flatten(first + spatial)
    place, inside = (one.permute(order).flatten(spatial) for one in (place, inside))
    best, chosen = values.masked_fill(~inside, -math.inf).max(-1)
    return best, place.expand(values.shape).gather(-1, chosen.unsqueeze(-1)).squeeze(-1)


def maximum_backward(gradient: Tensor, x: Tensor, indices: Tensor, spatial: int) -> Tensor:
    """The gradient at the positions of the maxima over the last dimensions; elsewhere zero."""
    first = x.dim() - spatial
    flat = torch.zeros(x.shape, dtype=x.dtype).flatten(first)
    return flat.scatter_add(-1, indices.flatten(first), gradient.flatten(first)).reshape(x.shape)


def adaptive_maximum_2d_backward(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    """``maximum_backward`` for two dimensions."""
    return maximum_backward(gradient, x, indices, 2)


def adaptive_maximum_3d_backward(gradient: Tensor, x: Tensor, indices: Tensor) -> Tensor:
    """``maximum_backward`` for three dimensions."""
    return maximum_backward(gradient, x, indices, 3)


def maximum_3d_backward(
    gradient: Tensor,
    x: Tensor,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    indices: Tensor,
) -> Tensor:
    """``maximum_backward`` for three dimensions; the indices say all that the window says."""
    return maximum_backward(gradient, x, indices, 3)


aten = torch.ops.aten

DECOMPOSITIONS = {
    aten._adaptive_avg_pool2d.default: adaptive_mean,
    aten._adaptive_avg_pool3d.default: adaptive_mean,
    aten._adaptive_avg_pool2d_backward.default: adaptive_mean_2d_backward,
    aten._adaptive_avg_pool3d_backward.default: adaptive_mean_3d_backward,
    aten.adaptive_max_pool2d.default: adaptive_maximum,
    aten.adaptive_max_pool3d.default: adaptive_maximum,
    aten.adaptive_max_pool2d_backward.default: adaptive_maximum_2d_backward,
    aten.adaptive_max_pool3d_backward.default: adaptive_maximum_3d_backward,
    aten.max_pool3d_with_indices_backward.default: maximum_3d_backward,
}
