"""Engram: n-gram rows looked up on the host, gated into the residual streams."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .checkpoint.formats import decode_engram_rows
from .checkpoint.loader import Checkpoint
from .config import ModelConfig
from .engram_hash import EngramTables, hash_sequence, hash_window
from .kernels.engram import engram_gate
from .kernels.linear import quantized_linear
from .numerics import Numerics
from .parameters import weight


class Engram(nn.Module):
    """The device half of one engram layer."""

    def __init__(self, config: ModelConfig, numerics: Numerics) -> None:
        super().__init__()
        width = config.engram_columns() * config.engram_head_dim
        self.wkv = weight((config.hc_mult + 1) * config.hidden_size, width, dtype=numerics.dtype)
        self.q_weight = weight(config.hc_mult, config.hidden_size, dtype=torch.bfloat16)
        self.k_weight = weight(config.hc_mult, config.hidden_size, dtype=torch.bfloat16)
        self.eps = config.rms_norm_eps
        self.quantize = numerics.act_quant

    def forward(self, streams: Tensor, rows: Tensor) -> Tensor:
        """streams [M, n, d] and looked-up rows [M, columns * head_dim] to new streams."""
        keys_and_value = quantized_linear(rows, self.wkv, self.quantize)
        return engram_gate(streams, keys_and_value, self.q_weight, self.k_weight, self.eps)


class EngramLookup:
    """The host half: exact int64 hashing, and rows fetched from the memory-mapped tables."""

    def __init__(self, checkpoint: Checkpoint, numerics: Numerics) -> None:
        self.tables: EngramTables = checkpoint.engram_tables()
        self.dtype = numerics.dtype
        self.embeddings = [
            (
                checkpoint.tensor(f"layers.{layer}.engram.embed.weight").view(torch.uint8),
                checkpoint.tensor(f"layers.{layer}.engram.embed.scale").view(torch.uint8),
            )
            for layer in checkpoint.config.engram_layer_ids
        ]

    def sequence(self, token_ids: Tensor) -> Tensor:
        """Rows of every position of int64 token_ids [S]: [S, engram layers, columns * head_dim]."""
        return self._fetch(hash_sequence(self.tables, token_ids))

    def step(self, histories: Tensor) -> Tensor:
        """Rows of the newest of each request's last tokens, int64 [B, n-gram size]: [B, engram layers, width]."""
        return self._fetch(hash_window(self.tables, histories))

    def _fetch(self, row_ids: Tensor) -> Tensor:
        rows = [
            decode_engram_rows(
                embedding[row_ids[:, layer].flatten()].view(torch.float8_e4m3fn),
                scale[row_ids[:, layer].flatten()].view(torch.float8_e8m0fnu),
                self.dtype,
            ).view(row_ids.shape[0], -1)
            for layer, (embedding, scale) in enumerate(self.embeddings)
        ]
        return torch.stack(rows, 1)
