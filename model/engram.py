"""Engram, the half on the device: looked-up n-gram rows gated into the residual streams."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import ModelConfig
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
        self.fp8_max = numerics.linear_fp8_max

    def forward(self, streams: Tensor, rows: Tensor) -> Tensor:
        """streams [M, n, d] and looked-up rows [M, columns * head_dim] to new streams."""
        keys_and_value = quantized_linear(rows, self.wkv, self.fp8_max)
        return engram_gate(streams, keys_and_value, self.q_weight, self.k_weight, self.eps)
