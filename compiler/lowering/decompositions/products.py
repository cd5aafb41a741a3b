"""Matrix products of quantised, grouped and batched operands."""

from __future__ import annotations

import torch
from torch import Tensor


def grouped_product(
    left: Tensor,
    right: Tensor,
    offsets: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
) -> Tensor:
    """``torch._grouped_mm``: rows, columns or inner positions up to ``offsets[g]`` belong to group g.

    Sizes are static, so each group is multiplied with all of them and masked: as many times the work as there are
    groups. No more rows than groups, as in a decode step, are multiplied each with a copy of its group's matrix. Those
    beyond the last offset become 0.
    """
    dtype = out_dtype or left.dtype
    if offsets is None:
        return (left @ right).to(dtype)
    ends = offsets.to(torch.int64)
    starts = torch.cat([torch.zeros(1, dtype=torch.int64), ends[:-1]])
    count = offsets.shape[0]

    def members(size: int, group: int) -> Tensor:
        place = torch.arange(size)
        return (place >= starts[group]) & (place < ends[group])

    if left.dim() == 2 and right.dim() == 3:
        if left.shape[0] <= count:
            return _gathered_product(left, right, ends).to(dtype)
        result = torch.zeros(left.shape[0], right.shape[2], dtype=dtype)
        for group in range(count):
            result = torch.where(members(left.shape[0], group)[:, None], (left @ right[group]).to(dtype), result)
        return result
    if left.dim() == 3 and right.dim() == 2:
        result = torch.zeros(left.shape[1], right.shape[1], dtype=dtype)
        for group in range(count):
            result = torch.where(members(right.shape[1], group), (left[group] @ right).to(dtype), result)
        return result
    parts = []
    for group in range(count):
        inside = members(left.shape[1], group)
        zero = torch.zeros((), dtype=left.dtype)
        parts.append(torch.where(inside, left, zero) @ torch.where(inside[:, None], right, zero))
    return torch.stack(parts).to(dtype)


def _gathered_product(left: Tensor, right: Tensor, ends: Tensor) -> Tensor:
    """Each row of left [S, K] times the matrix of its group in right [G, K, N]."""
    group = (torch.arange(left.shape[0])[:, None] >= ends).sum(1)
    count = right.shape[0]
    product = torch.bmm(left[:, None], right[group.clamp(max=count - 1)])[:, 0]
    return torch.where((group < count)[:, None], product, 0)


def int8_weight_product(x: Tensor, weight: Tensor, scales: Tensor) -> Tensor:
    """x [M, K] times int8 weight [N, K], each row of the weight scaled."""
    product = x.float() @ weight.float().T
    return (product * scales.float()).to(x.dtype)


def scaled_product(
    left: Tensor,
    right: Tensor,
    scale_left: Tensor,
    scale_right: Tensor,
    bias: Tensor | None = None,
    scale_result: Tensor | None = None,
    out_dtype: torch.dtype | None = None,
    use_fast_accum: bool = False,
) -> Tensor:
    """float8 matrices times their scales, accumulated in float32."""
    product = (left.float() * scale_left) @ (right.float() * scale_right)
    if bias is not None:
        product = product + bias.float()
    if scale_result is not None:
        product = product * scale_result
    return product.to(out_dtype or left.dtype)


def batch_sum_product(bias: Tensor, left: Tensor, right: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta * bias + alpha * the sum of the products of a batch."""
    if not bias.dtype.is_floating_point:
        alpha, beta = int(alpha), int(beta)
    total = left.transpose(0, 1).flatten(1) @ right.flatten(0, 1)
    scaled = total if alpha == 1 else total * alpha
    if beta == 0:
        return scaled.expand(torch.broadcast_shapes(bias.shape, scaled.shape))
    return (bias if beta == 1 else bias * beta) + scaled


def trilinear(
    first: Tensor,
    second: Tensor,
    third: Tensor,
    expand1: list[int],
    expand2: list[int],
    expand3: list[int],
    sumdim: list[int],
    unroll_dim: int = 1,
) -> Tensor:
    """The product of three tensors, each with new dimensions, summed over some of them."""
    spread = []
    for one, places in ((first, expand1), (second, expand2), (third, expand3)):
        for place in sorted(places):
            one = one.unsqueeze(place)
        spread.append(one)
    product = spread[0] * spread[1] * spread[2]
    return product.sum(sumdim) if sumdim else product


def distances(x1: Tensor, x2: Tensor, p: float, compute_mode: int | None) -> Tensor:
    """p-norms of the differences of every row of x1 [..., P, M] and every row of x2 [..., R, M]."""
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    return torch.linalg.vector_norm(difference, p, -1)


def distances_within(x: Tensor, p: float = 2) -> Tensor:
    """p-norms of the differences of all pairs of rows of x, in the order of the upper triangle."""
    first, second = torch.triu_indices(x.shape[0], x.shape[0], 1)
    return torch.linalg.vector_norm(x[first] - x[second], p, -1)


aten = torch.ops.aten

DECOMPOSITIONS = {
    aten._grouped_mm.default: grouped_product,
    aten._weight_int8pack_mm.default: int8_weight_product,
    aten._scaled_mm.default: scaled_product,
    aten.addbmm.default: batch_sum_product,
    aten._trilinear.default: trilinear,
    aten._cdist_forward.default: distances,
    aten._pdist_forward.default: distances_within,
}
