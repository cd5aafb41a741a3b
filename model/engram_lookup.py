"""Engram, the half on the host: n-grams hashed exactly, and their rows fetched from memory-mapped tables."""

from __future__ import annotations

import torch
from torch import Tensor

from .checkpoint.formats import decode_engram_rows
from .checkpoint.loader import Checkpoint
from .engram_hash import EngramTables, hash_sequence, hash_window
from .numerics import Numerics


class EngramLookup:
    """The rows of each engram layer for the last tokens of a sequence."""

    def __init__(self, checkpoint: Checkpoint, numerics: Numerics, tables: EngramTables | None = None) -> None:
        """``tables`` are those of the checkpoint, if they are known already."""
        self.tables = tables or checkpoint.engram_tables()
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
