"""Pooling of neighbouring tokens into one compressed row."""

from __future__ import annotations

import torch
from torch import Tensor

from .library import kernel
from .rounded_math import exp


def _shape(values: Tensor, gates: Tensor, dtype: torch.dtype) -> Tensor:
    return values.new_empty(values.shape[0], values.shape[2], dtype=dtype)


@kernel("gated_pool(Tensor values, Tensor gates, ScalarType dtype) -> Tensor", _shape)
def gated_pool(values: Tensor, gates: Tensor, dtype: torch.dtype) -> Tensor:
    """Per channel, the average of values [M, r, D] weighted by softmax over r of gates [M, r, D], both float32.

    Result [M, D] in ``dtype``. Meaning: DeepSeek-V4.1 inference code, model.py ``Compressor``.
    """
    weights = exp(gates - gates.amax(1, keepdim=True))
    weights = weights / weights.sum(1, keepdim=True)
    return (values * weights).sum(1).to(dtype)
