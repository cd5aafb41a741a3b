"""Searches in sorted tensors, selections by rank or by mask, and counts."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def search_sorted(
    sorted_sequence: Tensor,
    values: Tensor,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """Positions at which the values would keep the last dimension sorted, by bisection."""
    if sorter is not None:
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    behind = right or side == "right"
    shape = values.shape
    lead = sorted_sequence.shape[:-1]
    wanted = values.reshape(*lead, -1) if lead else values.reshape(-1)
    common = torch.promote_types(sorted_sequence.dtype, values.dtype)
    sequence, wanted = sorted_sequence.to(common), wanted.to(common)
    size = sequence.shape[-1]
    low = torch.zeros(wanted.shape, dtype=torch.int64)
    high = torch.full(wanted.shape, size, dtype=torch.int64)
    for _ in range(size.bit_length()):
        middle = (low + high) // 2
        there = sequence.gather(-1, middle.clamp(max=size - 1))
        passes = ~(there > wanted) if behind else ~(there >= wanted)
        passes = passes & (low < high)
        low, high = torch.where(passes, middle + 1, low), torch.where(passes, high, torch.minimum(middle, high))
    return low.to(torch.int32 if out_int32 else torch.int64).reshape(shape)


def search_sorted_number(
    sorted_sequence: Tensor,
    value: float,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Tensor | None = None,
) -> Tensor:
    """``search_sorted`` for one number."""
    values = torch.full((), value, dtype=sorted_sequence.dtype)
    return search_sorted(sorted_sequence, values, out_int32=out_int32, right=right, side=side, sorter=sorter)


def bucketize(x: Tensor, boundaries: Tensor, *, out_int32: bool = False, right: bool = False) -> Tensor:
    """The interval between boundaries [n] that each element lies in."""
    return search_sorted(boundaries, x, out_int32=out_int32, right=right)


def masked_scatter(x: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """x with the elements of ``source`` in order where the mask holds."""
    shape = torch.broadcast_shapes(x.shape, mask.shape)
    chosen = mask.expand(shape).flatten()
    place = (chosen.to(torch.int64).cumsum(0) - 1).clamp(min=0)
    taken = (
        source.flatten()[place.clamp(max=max(source.numel() - 1, 0))] if source.numel() else x.expand(shape).flatten()
    )
    return torch.where(chosen, taken, x.expand(shape).flatten()).reshape(shape)


def masked_scatter_backward(gradient: Tensor, mask: Tensor, sizes: list[int]) -> Tensor:
    """The gradient of the source of a masked scatter: the masked elements in order, and zeros behind them."""
    chosen = mask.expand(gradient.shape).flatten()
    place = chosen.to(torch.int64).cumsum(0) - 1
    count = math.prod(sizes)
    beyond = torch.where(chosen, place, count)
    room = torch.zeros(count + 1, dtype=gradient.dtype).scatter(0, beyond, gradient.flatten())
    return room[:count].reshape(sizes)


def histogram(x: Tensor, bins: int = 100, min: float = 0, max: float = 0) -> Tensor:
    """Counts of elements in equal intervals from min to max; those outside, and NaN, count nowhere."""
    flat = x.flatten()
    wide = flat.double() if flat.dtype is torch.float64 else flat.float()
    if min == max and x.numel():
        low, high = wide.min(), wide.max()
        low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    elif min == max:
        low, high = torch.tensor(float(min) - 1), torch.tensor(float(max) + 1)
    else:
        low, high = torch.tensor(float(min)), torch.tensor(float(max))
    inside = (wide >= low) & (wide <= high)
    scaled = torch.where(inside, (wide - low) / (high - low) * bins, 0.0)
    place = scaled.to(torch.int64).clamp(max=bins - 1)
    return torch.zeros(bins, dtype=x.dtype).scatter_add(0, place, inside.to(x.dtype))


def _at_rank(x: Tensor, rank: Tensor, dim: int, keepdim: bool) -> tuple[Tensor, Tensor]:
    """Value and position of the element at a rank, which has size one along ``dim``."""
    values, places = x.sort(stable=True, dim=dim)
    found, place = values.gather(dim, rank), places.gather(dim, rank)
    return (found, place) if keepdim else (found.squeeze(dim), place.squeeze(dim))


def _same_rank(x: Tensor, rank: int, dim: int) -> Tensor:
    shape = list(x.shape)
    shape[dim] = 1
    return torch.full(shape, rank, dtype=torch.int64)


def kth_value(x: Tensor, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The k-th smallest value and a position of it; NaN counts as largest."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    return _at_rank(x, _same_rank(x, k - 1, dim), dim, keepdim)


def _ranked_median(x: Tensor, dim: int, keepdim: bool, skips_nan: bool) -> tuple[Tensor, Tensor]:
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    size = x.shape[dim]
    if not x.dtype.is_floating_point:
        return _at_rank(x, _same_rank(x, (size - 1) // 2, dim), dim, keepdim)
    missing = x.isnan().to(torch.int64).sum(dim, keepdim=True)
    if skips_nan:
        rank = ((size - missing - 1) // 2).clamp(min=0)
    else:
        # NaN is sorted behind all numbers: the first of them stands at the number of numbers.
        rank = torch.where(missing > 0, size - missing, (size - 1) // 2)
    return _at_rank(x, rank, dim, keepdim)


def median_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median and a position of it; NaN if there is one."""
    return _ranked_median(x, dim, keepdim, False)


def nan_median_along(x: Tensor, dim: int, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The lower median of what is not NaN, and a position of it."""
    return _ranked_median(x, dim, keepdim, True)


def median(x: Tensor) -> Tensor:
    """The lower median of all elements; NaN if there is one."""
    return median_along(x.flatten(), 0)[0]


def nan_median(x: Tensor) -> Tensor:
    """The lower median of all elements that are not NaN."""
    return nan_median_along(x.flatten(), 0)[0]


def mode(x: Tensor, dim: int = -1, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """The most frequent value, the smallest of several, and the last position of it."""
    if not x.dim():
        return x.clone(), torch.zeros((), dtype=torch.int64)
    last = x.movedim(dim, -1)
    ordered = last.sort(stable=True, dim=-1)[0]
    counts = (ordered.unsqueeze(-1) == ordered.unsqueeze(-2)).to(torch.int32).sum(-1)
    value = ordered.gather(-1, counts.argmax(-1, keepdim=True))
    steps = torch.arange(last.shape[-1]).expand(last.shape)
    place = torch.where(last == value, steps, 0).amax(-1, keepdim=True)
    value, place = value.movedim(-1, dim), place.movedim(-1, dim)
    return (value, place) if keepdim else (value.squeeze(dim), place.squeeze(dim))


def nonzero_static(x: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """Coordinates [size, rank] of the first elements that are not zero, and rows of ``fill_value`` behind them."""
    hit = x.flatten() != 0
    found = torch.where(hit, torch.arange(x.numel()), x.numel()).sort()[0][:size]
    found = torch.nn.functional.pad(found, (0, size - found.shape[0]), value=x.numel())
    coordinates, rest = [], found
    for extent in reversed(x.shape):
        coordinates.append(rest % max(extent, 1))
        rest = rest // max(extent, 1)
    if not coordinates:
        return torch.zeros(size, 0, dtype=torch.int64)
    table = torch.stack(coordinates[::-1], -1)
    return torch.where((found < x.numel()).unsqueeze(-1), table, fill_value)


aten = torch.ops.aten

DECOMPOSITIONS = {
    aten.searchsorted.Tensor: search_sorted,
    aten.searchsorted.Scalar: search_sorted_number,
    aten.bucketize.Tensor: bucketize,
    aten.masked_scatter.default: masked_scatter,
    aten.masked_scatter_backward.default: masked_scatter_backward,
    aten.histc.default: histogram,
    aten.kthvalue.default: kth_value,
    aten.median.dim: median_along,
    aten.median.default: median,
    aten.nanmedian.dim: nan_median_along,
    aten.nanmedian.default: nan_median,
    aten.mode.default: mode,
    aten.nonzero_static.default: nonzero_static,
}
