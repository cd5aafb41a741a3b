"""Engram: rows of a hashed n-gram table added to the residual streams through a gate."""

from __future__ import annotations

import torch
from torch import Tensor

from .kernels import sigmoid
from .weights import Block


def add_engram(block: Block, streams: Tensor, rows: Tensor) -> Tensor:
    """Streams [S, n, d] plus the gated value of the table ``rows`` [S, columns, head_dim].

    DeepSeek-V4.1 inference code, engram.py: one linear gives a key for each stream and one shared value; the gate of
    a stream is the sigmoid of the signed square root of its normalised dot product with its key.
    """
    width = streams.shape[-1]
    projected = block.quantised_linear("engram.wkv", rows.flatten(1))
    keys, value = projected.split([streams.shape[1] * width, width], dim=-1)
    gate = _gate(block, streams, keys.unflatten(-1, streams.shape[1:]))
    added = streams.float() + gate[:, :, None] * value.float()[:, None, :]
    return block.report("engram", added.to(streams.dtype))


def _gate(block: Block, streams: Tensor, keys: Tensor) -> Tensor:
    eps = block.config.rms_norm_eps
    hidden, keys = streams.float(), keys.float()
    weight = block.tensor("engram.q_weight") * block.tensor("engram.k_weight")
    dot = (hidden * weight * keys).sum(-1)
    hidden_inverse = torch.rsqrt((hidden * hidden).mean(-1) + eps)
    key_inverse = torch.rsqrt((keys * keys).mean(-1) + eps)
    dot = dot * hidden_inverse * key_inverse * hidden.shape[-1] ** -0.5
    return sigmoid(torch.copysign(dot.abs().clamp_min(1e-6).sqrt(), dot))
