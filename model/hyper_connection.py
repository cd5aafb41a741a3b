"""The mixing weights of one sublayer's hyper-connection."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .config import ModelConfig
from .kernels.hyper_connection import hyper_connection_mix
from .parameters import weight


class HyperConnection(nn.Module):
    """Maps the residual streams to how a sublayer reads and writes them."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        count = config.hc_mult
        outputs = 2 * count + count * count
        self.fn = weight(outputs, count * config.hidden_size, dtype=torch.float32)
        self.base = weight(outputs, dtype=torch.float32)
        self.scale = weight(3, dtype=torch.float32)
        self.norm_eps = config.rms_norm_eps
        self.eps = config.hc_eps
        self.iterations = config.hc_sinkhorn_iters

    def forward(self, streams: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """streams [M, n, d] to pre [M, n], post [M, n], comb [M, n, n], float32."""
        return hyper_connection_mix(streams, self.fn, self.base, self.scale, self.norm_eps, self.eps, self.iterations)
