"""Attention over a short list of gathered rows with a learned sink.

Meaning: DeepSeek-V4.1 inference code, kernel.py ``sparse_attn`` (online softmax over blocks of 64 slots).
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .library import kernel
from .rounded_math import exp

SLOT_BLOCK = 64
INITIAL_MAXIMUM = -1e30
"""Finite, so that a row with no valid slot yields exactly zero and not NaN."""


def _shape(query: Tensor, rows: Tensor, valid: Tensor, sink: Tensor, scale: float) -> Tensor:
    return torch.empty_like(query)


@kernel("sparse_attention(Tensor query, Tensor rows, Tensor valid, Tensor sink, float scale) -> Tensor", _shape)
def sparse_attention(query: Tensor, rows: Tensor, valid: Tensor, sink: Tensor, scale: float) -> Tensor:
    """query [M, H, D] over rows [M, K, D], which are keys and values of every head; result like query.

    ``valid`` [M, K] is False on holes; ``sink`` [H] float32 joins the denominator only. Scores and denominator are
    float32; probabilities are rounded to the query's dtype before the product with the values. The last block is
    filled up with holes.
    """
    missing = -rows.shape[1] % SLOT_BLOCK
    rows = functional.pad(rows, (0, 0, 0, missing))
    valid = functional.pad(valid, (0, missing), value=False)
    wide_query = query.float()
    maximum = torch.full_like(wide_query[..., :1], INITIAL_MAXIMUM)
    denominator = torch.zeros_like(maximum)
    total = torch.zeros_like(wide_query)
    for start in range(0, rows.shape[1], SLOT_BLOCK):
        keys = rows[:, start : start + SLOT_BLOCK].float()
        hole = ~valid[:, None, start : start + SLOT_BLOCK]
        scores = torch.bmm(wide_query, keys.transpose(1, 2)).masked_fill(hole, float("-inf")) * scale
        raised = torch.maximum(maximum, scores.amax(-1, keepdim=True))
        correction = exp(maximum - raised)
        weights = exp(scores - raised)
        denominator = denominator * correction + weights.sum(-1, keepdim=True)
        total = total * correction + torch.bmm(weights.to(query.dtype).float(), keys)
        maximum = raised
    denominator = denominator + exp(sink.view(1, -1, 1) - maximum)
    return (total / denominator).to(query.dtype)
