"""Orders for targets without a sort: the position of an element is the number of elements in front of it."""

from __future__ import annotations

import torch
from jaxlib.mlir.dialects import stablehlo

from .emitter import Emitter
from .reduction import extreme
from .tensor import Tensor, is_float


def greater(e: Emitter, x: Tensor, y: Tensor) -> Tensor:
    """Whether x is behind y in ascending order; NaN is behind everything else."""
    is_greater = e.compare("GT", x, y)
    if not is_float(x.dtype):
        return is_greater
    only_x_is_nan = e.binary(stablehlo.and_, e.compare("NE", x, x), e.compare("EQ", y, y))
    return e.binary(stablehlo.or_, is_greater, only_x_is_nan)


def order_by_rank(e: Emitter, x: Tensor, axis: int, descending: bool, count: int) -> tuple[Tensor, Tensor]:
    """The first ``count`` values in order and their int32 positions, with compares, selects and sums of int32 only.

    Every pair of elements along ``axis`` is compared twice: meant for up to some thousand elements. The sums stay
    below 2^24, so that a unit which adds integers in float32 gets them right. Values are
    those of a maximum with one candidate: a subnormal comes out as zero where maxima flush it.
    """
    last = [kept for kept in range(x.rank) if kept != axis] + [axis]
    rows = e.transpose(x, last)
    values, positions = _pick(e, rows, _ranks(e, rows, descending), count)
    back = [last.index(kept) for kept in range(x.rank)]
    return e.transpose(values, back), e.transpose(positions, back)


def _ranks(e: Emitter, rows: Tensor, descending: bool) -> Tensor:
    """How many elements of the last dimension come before each of them."""
    size = rows.shape[-1]
    square = (*rows.shape, size)
    own = e.broadcast(rows, square, range(rows.rank))
    other = e.broadcast(rows, square, [*range(rows.rank - 1), rows.rank])
    other_is_less, own_is_less = greater(e, own, other), greater(e, other, own)
    before, behind = (own_is_less, other_is_less) if descending else (other_is_less, own_is_less)
    other_is_left = e.compare("LT", e.iota(torch.int32, square, rows.rank), e.iota(torch.int32, square, rows.rank - 1))
    equal_and_left = e.binary(stablehlo.and_, e.unary(stablehlo.not_, behind), other_is_left)
    comes_first = e.binary(stablehlo.or_, before, equal_and_left)
    return e.reduce(e.convert(comes_first, torch.int32), [rows.rank], stablehlo.AddOp, 0)


def _pick(e: Emitter, rows: Tensor, ranks: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The elements with ranks below ``count`` in the order of their ranks, and their positions."""
    shape = (*rows.shape[:-1], count, rows.shape[-1])
    spread = [*range(rows.rank - 1), rows.rank]
    chosen = e.compare("EQ", e.broadcast(ranks, shape, spread), e.iota(torch.int32, shape, rows.rank - 1))
    least = extreme(rows.dtype, False)
    fold = stablehlo.OrOp if rows.dtype is torch.bool else stablehlo.MaxOp
    candidates = e.select(chosen, e.broadcast(rows, shape, spread), e.constant(least, rows.dtype, shape))
    position = e.select(chosen, e.iota(torch.int32, shape, rows.rank), e.constant(0, torch.int32, shape))
    return (
        e.reduce(candidates, [rows.rank], fold, least),
        e.reduce(position, [rows.rank], stablehlo.AddOp, 0),
    )
