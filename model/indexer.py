"""Which compressed rows a token attends to."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from .cache_access import CompressedRows, DecodeAccess, PrefillAccess, Report
from .config import ModelConfig
from .kernels.indexing import candidate_mask, index_scores, select_top_rows
from .kernels.linear import quantized_linear
from .kernels.normalization import rms_norm
from .kernels.quantization import quantize_fp4
from .kernels.rotary import rotate
from .numerics import Numerics
from .parameters import weight


@dataclass
class Published:
    """What a layer leaves for later layers of the same step.

    ``selection`` int32 [M, k]: positions among the compressed rows, ascending, -1 for none. ``rows`` int32 [M, k]: the
    rows of the pool at those positions, None if there are none yet. ``candidates`` bool [M, T]: rows that later index
    sources may choose from.
    """

    selection: Tensor | None = None
    rows: Tensor | None = None
    candidates: Tensor | None = None


class IndexKeys(nn.Module):
    """Makes one index key from each compressed latent; kv sources only."""

    def __init__(self, config: ModelConfig, numerics: Numerics) -> None:
        super().__init__()
        self.wk = weight(config.index_head_dim, config.head_dim, dtype=numerics.dtype)
        self.k_norm = weight(config.index_head_dim, dtype=torch.bfloat16)
        self.eps = config.rms_norm_eps
        self.quantize = numerics.kv_quant

    def forward(self, latent: Tensor, rows: CompressedRows) -> Tensor:
        """latent [groups, head_dim], before its rotation, to keys [groups, index_head_dim]."""
        key = rms_norm(functional.linear(latent, self.wk), self.k_norm, self.eps)
        key = rotate(key, rows.cos, rows.sin, False)
        return quantize_fp4(key) if self.quantize else key


class IndexQuery(nn.Module):
    """Scores the compressed rows and selects the best; index sources only."""

    def __init__(self, config: ModelConfig, layer: int, numerics: Numerics) -> None:
        super().__init__()
        heads, width = config.index_n_heads, config.index_head_dim
        self.wq_b = weight(heads * width, config.q_lora_rank, dtype=numerics.dtype)
        self.weights_proj = weight(heads, config.hidden_size, dtype=numerics.dtype)
        self.heads = heads
        self.scale = width**-0.5 * heads**-0.5
        self.count = config.index_topk
        self.publishes_candidates = layer == config.candidate_source_layer_id
        self.filters = layer > config.candidate_source_layer_id
        self.block_size = config.candidate_block_size
        self.block_count = config.candidate_topk_blocks
        self.numerics = numerics

    def forward(
        self,
        x: Tensor,
        q_lora: Tensor,
        keys: Tensor,
        rows: CompressedRows,
        access: DecodeAccess | PrefillAccess,
        published: Published,
        report: Report,
    ) -> None:
        """Publish the selection of every query in x [M, d], and the candidates where this layer makes them.

        q_lora [M, rank]; keys [M or 1, T, index_head_dim].
        """
        query = quantized_linear(q_lora, self.wq_b, self.numerics.linear_fp8_max).unflatten(-1, (self.heads, -1))
        query = rotate(query, *access.rotation[True], False)
        if self.numerics.kv_quant:
            query = quantize_fp4(query)
        weights = functional.linear(x, self.weights_proj) * self.scale
        scores = index_scores(query, keys, weights)
        if self.publishes_candidates:
            made = candidate_mask(scores, rows.visible, self.block_size, self.block_count)
            published.candidates = made
            report("attn.candidates", made)
        candidates = published.candidates if self.filters else None
        selection = select_top_rows(scores, rows.visible, candidates, self.count)
        published.selection = selection
        report("attn.index_query", query)
        report("attn.index_weights", weights)
        report("attn.index_scores", scores)
        report("attn.selection", selection)
