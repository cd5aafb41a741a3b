"""Parameters that a checkpoint fills later."""

from __future__ import annotations

import torch
from torch import nn


def weight(*shape: int, dtype: torch.dtype) -> nn.Parameter:
    """A parameter without storage (meta device) and without gradient."""
    return nn.Parameter(torch.empty(shape, dtype=dtype, device="meta"), requires_grad=False)
