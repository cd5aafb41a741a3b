"""Manifold-constrained hyper-connections: four residual streams, mixed before and after every sublayer.

Meaning: DeepSeek-V4.1 inference code, kernel.py ``hc_split_sinkhorn`` and model.py ``hc_pre`` / ``hc_post``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch._higher_order_ops.while_loop import while_loop_op
from torch.nn import functional

from .library import kernel
from .rounded_math import exp, sigmoid


def _sinkhorn_shape(logits: Tensor, iterations: int, eps: float) -> Tensor:
    return torch.empty_like(logits)


def _sinkhorn_loop(logits: Tensor, iterations: int, eps: float) -> Tensor:
    """A loop, because a compiler that fuses unrolled steps computes the first ones again in every later one."""
    first = torch.ones((), dtype=torch.int32)
    _, weights = while_loop_op(
        lambda iteration, weights: iteration < iterations,
        lambda iteration, weights: (iteration + 1, _sinkhorn_step(weights, eps)),
        (first, _sinkhorn_start(logits, eps)),  # pyright: ignore[reportArgumentType]
        (),
    )
    return weights


@kernel("sinkhorn(Tensor logits, int iterations, float eps) -> Tensor", _sinkhorn_shape, decomposition=_sinkhorn_loop)
def sinkhorn(logits: Tensor, iterations: int, eps: float) -> Tensor:
    """Alternate row and column normalisation of exp(logits) [M, n, n] float32, ending on columns.

    Sinkhorn and Knopp 1967; eps is added to the rows' softmax and to every later sum.
    """
    weights = _sinkhorn_start(logits, eps)
    for _ in range(iterations - 1):
        weights = _sinkhorn_step(weights, eps)
    return weights


def _sinkhorn_start(logits: Tensor, eps: float) -> Tensor:
    weights = exp(logits - logits.amax(-1, keepdim=True))
    weights = weights / weights.sum(-1, keepdim=True) + eps
    return weights / (weights.sum(-2, keepdim=True) + eps)


def _sinkhorn_step(weights: Tensor, eps: float) -> Tensor:
    weights = weights / (weights.sum(-1, keepdim=True) + eps)
    return weights / (weights.sum(-2, keepdim=True) + eps)


def _mix_shape(
    streams: Tensor, projection: Tensor, base: Tensor, scale: Tensor, norm_eps: float, eps: float, iterations: int
) -> tuple[Tensor, Tensor, Tensor]:
    rows, count, _ = streams.shape
    return (
        base.new_empty(rows, count),
        base.new_empty(rows, count),
        base.new_empty(rows, count, count),
    )


@kernel(
    "hyper_connection_mix(Tensor streams, Tensor projection, Tensor base, Tensor scale, float norm_eps, float eps, "
    "int iterations) -> (Tensor, Tensor, Tensor)",
    _mix_shape,
)
def hyper_connection_mix(
    streams: Tensor, projection: Tensor, base: Tensor, scale: Tensor, norm_eps: float, eps: float, iterations: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Mixing coefficients of one sublayer from its residual streams [M, n, d], all float32.

    projection [2n + n*n, n*d], base [2n + n*n], scale [3]. Returns ``pre`` [M, n] (collapse weights), ``post`` [M, n]
    (how much of the output each stream takes) and ``comb`` [M, n, n] (stream-to-stream, doubly stochastic).
    """
    count = streams.shape[1]
    flat = streams.flatten(1).float()
    mixes = functional.linear(flat, projection) * torch.rsqrt(flat.square().mean(-1, keepdim=True) + norm_eps)
    pre_logits, post_logits, comb_logits = mixes.split([count, count, count * count], -1)
    pre_base, post_base, comb_base = base.split([count, count, count * count], -1)
    pre = sigmoid(pre_logits * scale[0] + pre_base) + eps
    post = sigmoid(post_logits * scale[1] + post_base) * 2.0
    comb = (comb_logits * scale[2] + comb_base).unflatten(-1, (count, count))
    return pre, post, sinkhorn(comb, iterations, eps)


def _collapse_shape(streams: Tensor, pre: Tensor) -> Tensor:
    return streams.new_empty(streams.shape[0], streams.shape[2])


@kernel("hyper_connection_collapse(Tensor streams, Tensor pre) -> Tensor", _collapse_shape)
def hyper_connection_collapse(streams: Tensor, pre: Tensor) -> Tensor:
    """Weighted sum of the streams [M, n, d] with weights pre [M, n]: [M, d] in the streams' dtype."""
    return (pre.unsqueeze(-1) * streams.float()).sum(1).to(streams.dtype)


def _expand_shape(output: Tensor, streams: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    return torch.empty_like(streams)


@kernel("hyper_connection_expand(Tensor output, Tensor streams, Tensor post, Tensor comb) -> Tensor", _expand_shape)
def hyper_connection_expand(output: Tensor, streams: Tensor, post: Tensor, comb: Tensor) -> Tensor:
    """New streams [M, n, d] from a sublayer's output [M, d].

    Stream k becomes post[k] * output + sum over j of comb[j, k] * stream j.
    """
    wide = streams.float()
    mixed = (comb.unsqueeze(-1) * wide.unsqueeze(2)).sum(1)
    return (post.unsqueeze(-1) * output.float().unsqueeze(1) + mixed).to(streams.dtype)
