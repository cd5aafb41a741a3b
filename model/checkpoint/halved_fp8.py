"""Stored fp8 weights brought into the range of Trainium 1 and 2, whose e4m3 ends at 240: values halved, scales doubled.

A scale is a power of two, so the product stays what it was, except where halving shifts a bit out: odd multiples of
the smallest subnormal below 2^-5, which are rounded half to even.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import CheckpointError
from .formats import decode_e4m3fn, encode_e4m3fn

_LARGEST_UE8M0 = 254


def halve_e4m3(stored: Tensor) -> Tensor:
    """e4m3fn bytes -> the bytes of half their values, up to 224; what is no number stays so in both formats."""
    values = decode_e4m3fn(stored)
    return torch.where(values.isnan(), stored.view(torch.uint8), encode_e4m3fn(values / 2))


def double_ue8m0(stored: Tensor) -> Tensor:
    """ue8m0 bytes -> the bytes of twice their values; raises CheckpointError for a scale that has no double."""
    codes = stored.view(torch.uint8)
    if bool((codes >= _LARGEST_UE8M0).any()):
        raise CheckpointError(
            "a scale of 2^127 has no double, so its weight cannot be brought into an fp8 range that ends at 240: "
            "use a target whose fp8 ends at 448, and check the checkpoint with `deepinfer-neuron tiny check DIR`"
        )
    return codes + 1
