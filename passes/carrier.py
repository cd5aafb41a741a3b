"""What a tensor of one dtype is when another dtype carries it."""

from __future__ import annotations

import torch
from torch import Tensor


def carry(tensor: Tensor, dtype: torch.dtype) -> Tensor:
    """The same bits seen as a type of equal width, or a copy of the same values in a type of another width."""
    return tensor.view(dtype) if dtype.itemsize == tensor.dtype.itemsize else tensor.to(dtype)
