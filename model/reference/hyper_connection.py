"""Hyper-connections: the residual stream as several copies that each sublayer collapses, feeds and mixes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from .kernels import add_in_order, hyper_connection_split
from .weights import Block


@dataclass(frozen=True)
class Mixes:
    """Coefficients of one sublayer site, float32: ``pre`` and ``post`` [S, n], ``comb`` [S, n, n] for n streams."""

    pre: Tensor
    post: Tensor
    comb: Tensor


def first_streams(embedded: Tensor, streams: int) -> tuple[Tensor, Tensor]:
    """Embeddings [S, d] -> equal streams [S, n, d] and the coefficients [S, n] that collapse them to stream 0."""
    pre = torch.zeros(len(embedded), streams)
    pre[:, 0] = 1
    return embedded[:, None, :].repeat(1, streams, 1), pre


def compute_mixes(block: Block, site: str, streams: Tensor) -> Mixes:
    """Coefficients of ``site`` (``attn`` or ``ffn``) from the streams [S, n, d] that enter it.

    DeepSeek-V4.1 inference code, model.py Block.hc_pre: the projection comes first, then the scalar RMS factor.
    """
    config = block.config
    flat = streams.flatten(1).float()
    inverse = torch.rsqrt((flat * flat).mean(-1, keepdim=True) + config.rms_norm_eps)
    projected = F.linear(flat, block.tensor(f"hc_{site}_fn")) * inverse
    scale, base = block.tensor(f"hc_{site}_scale"), block.tensor(f"hc_{site}_base")
    parts = hyper_connection_split(projected, scale, base, config.hc_mult, config.hc_sinkhorn_iters, config.hc_eps)
    mixes = Mixes(*parts)
    for name in ("pre", "post", "comb"):
        block.report(f"{site}.mix.{name}", getattr(mixes, name))
    return mixes


def collapse(streams: Tensor, pre: Tensor) -> Tensor:
    """Sum over j of pre_j * streams_j: [S, n, d] and [S, n] -> [S, d] in the dtype of ``streams``."""
    weighted = streams.float() * pre[:, :, None]
    return add_in_order(weighted.unbind(1)).to(streams.dtype)


def expand(output: Tensor, streams: Tensor, mixes: Mixes) -> Tensor:
    """post_k * output + sum over j of comb[j, k] * streams_j: [S, d] and [S, n, d] -> [S, n, d]."""
    mixed = add_in_order((mixes.comb[:, :, :, None] * streams.float()[:, :, None, :]).unbind(1))
    return (mixes.post[:, :, None] * output.float()[:, None, :] + mixed).to(streams.dtype)
