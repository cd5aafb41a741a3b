"""Root-mean-square normalisation."""

from __future__ import annotations

import torch
from torch import Tensor

from .library import kernel


def _shape(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    return torch.empty_like(x)


@kernel("rms_norm(Tensor x, Tensor weight, float eps) -> Tensor", _shape)
def rms_norm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """x / rms(x) * weight over the last dimension, in float32, returned in x's dtype (Zhang and Sennrich 2019)."""
    wide = x.float()
    normalised = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + eps)
    return (normalised * weight.float()).to(x.dtype)
