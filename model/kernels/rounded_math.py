"""Transcendental functions computed in float64 and rounded once to float32.

Libraries differ in the last bit of float32 ``exp``. A float64 result rounded once is the correctly rounded value in
all but about one case in 2^28, so two implementations of this contract agree to the bit.
"""

from __future__ import annotations

import torch
from torch import Tensor

SOFTPLUS_THRESHOLD = 20.0
"""Above it softplus(x) is x, as in ``torch.nn.functional.softplus``."""


def exp(x: Tensor) -> Tensor:
    """e^x, float32 to float32."""
    return x.double().exp().float()


def sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + e^-x), float32 to float32."""
    return (1.0 / (1.0 + (-x.double()).exp())).float()


def silu(x: Tensor) -> Tensor:
    """x / (1 + e^-x), float32 to float32."""
    wide = x.double()
    return (wide / (1.0 + (-wide).exp())).float()


def softplus(x: Tensor) -> Tensor:
    """log(1 + e^x), float32 to float32; x itself above ``SOFTPLUS_THRESHOLD``."""
    wide = x.double()
    return torch.where(x > SOFTPLUS_THRESHOLD, x, torch.log1p(wide.clamp(max=SOFTPLUS_THRESHOLD).exp()).float())
