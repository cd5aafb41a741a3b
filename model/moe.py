"""The feed-forward sublayer: routed experts and one shared expert."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .cache_access import Report
from .config import ModelConfig
from .kernels.experts import mix_experts, route, swiglu
from .kernels.linear import quantized_linear
from .numerics import Numerics
from .parameters import weight


class Gate(nn.Module):
    """Router weights; ``bias`` shifts the choice of text tokens only."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.weight = weight(config.n_routed_experts, config.hidden_size, dtype=torch.float32)
        self.bias = weight(config.n_routed_experts, dtype=torch.float32)


class ExpertWeights(nn.Module):
    """w1 and w3 [..., inner, d] and w2 [..., d, inner]; a leading axis counts routed experts."""

    def __init__(self, *leading: int, inner: int, width: int, dtype: torch.dtype) -> None:
        super().__init__()
        self.w1 = weight(*leading, inner, width, dtype=dtype)
        self.w3 = weight(*leading, inner, width, dtype=dtype)
        self.w2 = weight(*leading, width, inner, dtype=dtype)


class MixtureOfExperts(nn.Module):
    """Top-k routed experts plus the shared expert."""

    def __init__(self, config: ModelConfig, numerics: Numerics) -> None:
        super().__init__()
        inner, width, dtype = config.moe_intermediate_size, config.hidden_size, numerics.dtype
        self.gate = Gate(config)
        self.experts = ExpertWeights(config.n_routed_experts, inner=inner, width=width, dtype=dtype)
        self.shared_experts = ExpertWeights(inner=inner, width=width, dtype=dtype)
        self.count = config.num_experts_per_tok
        self.scale = config.routed_scaling_factor
        self.limit = config.swiglu_limit
        self.fp8_max = numerics.linear_fp8_max

    def forward(self, x: Tensor, report: Report) -> Tensor:
        """x [M, d] to [M, d]."""
        ids, weights = route(x, self.gate.weight, self.gate.bias, self.count, self.scale)
        experts = self.experts
        routed = mix_experts(x, ids, weights, experts.w1, experts.w3, experts.w2, self.limit, self.fp8_max)
        shared = self._shared(x)
        output = (routed + shared.float()).to(x.dtype)
        report("ffn.expert_ids", ids)
        report("ffn.expert_weights", weights)
        report("ffn.routed", routed)
        report("ffn.shared", shared)
        report("ffn.output", output)
        return output

    def _shared(self, x: Tensor) -> Tensor:
        shared = self.shared_experts
        gate = quantized_linear(x, shared.w1, self.fp8_max)
        up = quantized_linear(x, shared.w3, self.fp8_max)
        return quantized_linear(swiglu(gate, up, self.limit), shared.w2, self.fp8_max)
