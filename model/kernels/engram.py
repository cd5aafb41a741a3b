"""The gate that lets looked-up n-gram rows into the residual streams."""

from __future__ import annotations

import torch
from torch import Tensor

from .library import kernel
from .rounded_math import sigmoid

MAGNITUDE_FLOOR = 1e-6


def _shape(streams: Tensor, keys_and_value: Tensor, query_weight: Tensor, key_weight: Tensor, eps: float) -> Tensor:
    return torch.empty_like(streams)


@kernel(
    "engram_gate(Tensor streams, Tensor keys_and_value, Tensor query_weight, Tensor key_weight, float eps) -> Tensor",
    _shape,
)
def engram_gate(
    streams: Tensor, keys_and_value: Tensor, query_weight: Tensor, key_weight: Tensor, eps: float
) -> Tensor:
    """streams [M, n, d] plus gate times value; keys_and_value [M, (n + 1) * d] holds n keys, then the value.

    The gate of a stream is sigmoid(sign * sqrt|s|) of s, the scaled dot product of the normalised stream and key.
    Meaning: DeepSeek-V4.1 inference code, engram.py.
    """
    count, width = streams.shape[1:]
    wide = streams.float()
    parts = keys_and_value.float().unflatten(-1, (count + 1, width))
    keys, value = parts[:, :count], parts[:, count:]
    weight = query_weight.float() * key_weight.float()
    stream_norm = torch.rsqrt(wide.square().mean(-1) + eps)
    key_norm = torch.rsqrt(keys.square().mean(-1) + eps)
    score = (wide * weight * keys).sum(-1) * stream_norm * key_norm * width**-0.5
    root = torch.sqrt(score.abs().clamp_min(MAGNITUDE_FLOOR))
    gate = sigmoid(torch.copysign(root, score)).unsqueeze(-1)
    return (wide + gate * value).to(streams.dtype)
