"""The older IEEE-like e4m3 of Trainium 1 and 2, which ends at 240, and what halving fp8 weights loses."""

from __future__ import annotations

import torch
from deepinfer_neuron.model.checkpoint.formats import decode_e4m3fn, encode_e4m3fn
from deepinfer_neuron.model.checkpoint.halved_fp8 import halve_e4m3
from torch import Tensor

MAX = 240.0
_INFINITY_BYTE = 0x78


def decode_e4m3(stored: Tensor) -> Tensor:
    """Bytes -> fp32; exponent 15 holds infinities and NaN."""
    stored = stored.view(torch.uint8)
    magnitude = stored & 0x7F
    special = torch.where(magnitude == _INFINITY_BYTE, torch.inf, torch.nan)
    special = torch.where(stored >= 0x80, -special, special)
    return torch.where(magnitude < _INFINITY_BYTE, decode_e4m3fn(stored), special)


def encode_e4m3(x: Tensor) -> Tensor:
    """Floats -> bytes, clamped to +-240 (where both e4m3 variants share their bytes) and rounded half to even."""
    return encode_e4m3fn(x.float().clamp(-MAX, MAX))


def count_lost_bits(stored: Tensor) -> int:
    """How many of these e4m3fn bytes ``halve_e4m3`` has to round."""
    values = decode_e4m3fn(stored)
    return int(((decode_e4m3fn(halve_e4m3(stored)) * 2 != values) & ~values.isnan()).sum())
