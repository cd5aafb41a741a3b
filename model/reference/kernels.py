"""The contracts of the DeepSeek-V4.1 kernels in plain PyTorch. This file defines what is right.

Sums of a few terms are written as successive additions and the exponential family is rounded once from float64,
so that another implementation can agree to the bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import torch
import torch.nn.functional as F
from torch import Tensor

from ..config import RopeScaling

ATTENTION_BLOCK = 64
"""Index slots that sparse attention takes in one online-softmax step."""

ATTENTION_QUERY_CHUNK = 64
"""Queries gathered at once by sparse attention; bounds memory, never changes a result."""


def exp(x: Tensor) -> Tensor:
    """e**x, computed in float64 and rounded once to float32."""
    return torch.exp(x.double()).float()


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e**-x), computed in float64 and rounded once to float32."""
    return (1 / (1 + torch.exp(-x.double()))).float()


def silu(x: Tensor) -> Tensor:
    """x / (1 + e**-x), computed in float64 and rounded once to float32."""
    wide = x.double()
    return (wide / (1 + torch.exp(-wide))).float()


def softplus(x: Tensor) -> Tensor:
    """log(1 + e**x), computed in float64 and rounded once to float32; x itself above 20, as torch has it."""
    return torch.where(x > 20, x, torch.log1p(torch.exp(x.double())).float())


def add_in_order(terms: Sequence[Tensor]) -> Tensor:
    """((t0 + t1) + t2) + ..., one rounding per addition."""
    return reduce(torch.add, terms)


def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x * rsqrt(mean(x**2) + eps) * weight over the last axis, in float32, returned in the dtype of ``x``."""
    wide = x.float()
    inverse = torch.rsqrt((wide * wide).mean(-1, keepdim=True) + eps)
    return (wide * inverse * weight.float()).to(x.dtype)


def rope_frequencies(rotated: int, theta: float, scaling: RopeScaling | None) -> Tensor:
    """Angular frequencies of the ``rotated // 2`` channel pairs, radians per position, float32.

    With ``scaling``, YaRN interpolates the slow pairs (Peng et al. 2023, section 3.2; DeepSeek-V4.1 inference code,
    model.py precompute_freqs_cis).
    """
    exponents = torch.arange(0, rotated, 2, dtype=torch.float32) / rotated
    frequencies = 1.0 / theta**exponents
    if scaling is None:
        return frequencies
    low, high = _yarn_range(rotated, theta, scaling)
    pairs = torch.arange(rotated // 2, dtype=torch.float32)
    ramp = ((pairs - low) / max(high - low, 1e-3)).clamp(0, 1)
    return frequencies / scaling.factor * ramp + frequencies * (1 - ramp)


def _yarn_range(rotated: int, theta: float, scaling: RopeScaling) -> tuple[int, int]:
    def pair_turning(turns: float) -> float:
        span = scaling.original_max_position_embeddings / (turns * 2 * math.pi)
        return rotated * math.log(span) / (2 * math.log(theta))

    low = max(math.floor(pair_turning(scaling.beta_fast)), 0)
    high = min(math.ceil(pair_turning(scaling.beta_slow)), rotated - 1)
    return low, high


def rope(x: Tensor, positions: Tensor, frequencies: Tensor, inverse: bool = False) -> Tensor:
    """Rotate the last ``2 * len(frequencies)`` channels of ``x`` [S, ..., D] as adjacent pairs (a, b).

    ``positions`` [S] are token positions. Computed in float32 (cosine and sine of the float32 angle are rounded once
    from float64), returned in the dtype of ``x``; ``inverse`` rotates back.
    """
    angles = positions.to(torch.float32)[:, None] * frequencies
    shape = (len(positions), *[1] * (x.dim() - 2), len(frequencies))
    cos, sin = (turn(angles.double()).float().view(shape) for turn in (torch.cos, torch.sin))
    kept, turned = x.split([x.shape[-1] - 2 * len(frequencies), 2 * len(frequencies)], dim=-1)
    a, b = turned.float().unflatten(-1, (-1, 2)).unbind(-1)
    if inverse:
        pairs = torch.stack([a * cos + b * sin, b * cos - a * sin], dim=-1)
    else:
        pairs = torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1)
    return torch.cat([kept, pairs.flatten(-2).to(x.dtype)], dim=-1)


def sparse_attention(query: Tensor, kv: Tensor, sink: Tensor, indices: Tensor, scale: float) -> Tensor:
    """Attention of each query over the rows of ``kv`` that its index row names (kernel.py sparse_attn).

    ``query`` [M, H, D], ``kv`` [N, D] serves as keys and values of all heads, ``sink`` float32 [H], ``indices``
    [M, K] with -1 for a hole. Returns [M, H, D] in the dtype of ``query``; a row of holes gives exactly 0.

    The softmax runs over blocks of 64 slots with a running maximum that starts at -1e30. Probabilities are rounded
    to the dtype of ``query`` before they meet the values, the denominator is not; the sink enters the denominator
    only, unscaled.
    """
    missing = -indices.shape[1] % ATTENTION_BLOCK
    indices = F.pad(indices.long(), (0, missing), value=-1)
    chunks = zip(query.split(ATTENTION_QUERY_CHUNK), indices.split(ATTENTION_QUERY_CHUNK), strict=True)
    return torch.cat([_attend(rows, kv, sink, slots, scale) for rows, slots in chunks])


def _attend(query: Tensor, kv: Tensor, sink: Tensor, indices: Tensor, scale: float) -> Tensor:
    wide_query = query.float()
    maximum = torch.full((*query.shape[:2], 1), -1e30)
    denominator = torch.zeros_like(maximum)
    accumulated = torch.zeros(query.shape)
    for slots in indices.split(ATTENTION_BLOCK, dim=1):
        rows = kv[slots.clamp_min(0)].float()
        scores = wide_query @ rows.transpose(1, 2)
        scores = scores.masked_fill(slots[:, None, :] < 0, -torch.inf) * scale
        new_maximum = torch.maximum(maximum, scores.amax(-1, keepdim=True))
        correction = exp(maximum - new_maximum)
        probabilities = exp(scores - new_maximum)
        denominator = denominator * correction + probabilities.sum(-1, keepdim=True)
        accumulated = accumulated * correction + probabilities.to(query.dtype).float() @ rows
        maximum = new_maximum
    denominator = denominator + exp(sink[:, None] - maximum)
    return (accumulated / denominator).to(query.dtype)


def hyper_connection_split(
    mixes: Tensor, scale: Tensor, base: Tensor, streams: int, iterations: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Split the mixes into collapse, expand and stream-mixing coefficients (kernel.py hc_split_sinkhorn).

    ``mixes`` float32 [S, (2 + n) * n] for n ``streams``, ``scale`` [3], ``base`` [(2 + n) * n]. Returns pre [S, n],
    post [S, n] and comb [S, n, n], float32; comb is made doubly stochastic by Sinkhorn iterations ending on columns.
    """
    sizes = [streams, streams, streams * streams]
    first, second, rest = mixes.split(sizes, dim=-1)
    base_pre, base_post, base_comb = base.split(sizes)
    pre = sigmoid(first * scale[0] + base_pre) + eps
    post = 2 * sigmoid(second * scale[1] + base_post)
    comb = (rest * scale[2] + base_comb).unflatten(-1, (streams, streams))
    return pre, post, _sinkhorn(comb, iterations, eps)


def _sinkhorn(comb: Tensor, iterations: int, eps: float) -> Tensor:
    weights = exp(comb - comb.amax(-1, keepdim=True))
    comb = weights / _row_sums(weights) + eps
    comb = comb / (_column_sums(comb) + eps)
    for _ in range(iterations - 1):
        comb = comb / (_row_sums(comb) + eps)
        comb = comb / (_column_sums(comb) + eps)
    return comb


def _row_sums(comb: Tensor) -> Tensor:
    return add_in_order(comb.unbind(-1)).unsqueeze(-1)


def _column_sums(comb: Tensor) -> Tensor:
    return add_in_order(comb.unbind(-2)).unsqueeze(-2)


def index_scores(query: Tensor, keys: Tensor, weights: Tensor) -> Tensor:
    """Score of every key for every query: sum over heads of relu(q . k) * weight (model.py Indexer.forward).

    ``query`` [S, H, D], ``keys`` [T, D], ``weights`` [S, H] of one dtype; every step is rounded to that dtype, the
    sum over heads once. Returns [S, T].
    """
    dtype = query.dtype
    products = torch.matmul(query.float(), keys.float().t()).to(dtype).relu()
    weighted = (products * weights[:, :, None]).float()
    return add_in_order(weighted.unbind(1)).to(dtype)


def top_indices(scores: Tensor, count: int) -> Tensor:
    """Positions of the ``count`` highest scores along the last axis, best first; equal scores: lower index first."""
    order = torch.sort(scores, dim=-1, descending=True, stable=True).indices
    return order[..., :count]
