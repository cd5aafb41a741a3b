"""Simulated quantisation of activations and cache rows: quantise and decode again, keeping the dtype.

DeepSeek-V4.1 is trained with these, so they are part of the model. Meaning: inference code, kernel.py, ``act_quant``
and ``fp4_act_quant`` with ``inplace=True``.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .library import kernel

E4M3_MAX = 448.0
"""Where e4m3 ends in the OCP format; the one of Trainium 1 and 2 ends at 240."""
E2M1_MAX = 6.0
ACTIVATION_AMAX_FLOOR = 1e-4
FP4_E8M0_AMAX_FLOOR = 6.0 * 2.0**-126
FP4_E4M3_AMAX_FLOOR = 6.0 * 2.0**-9
_MANTISSA_BITS = 23
_MANTISSA_MASK = (1 << _MANTISSA_BITS) - 1
_LARGEST_EXPONENT = 254


def _shape(x: Tensor) -> Tensor:
    return torch.empty_like(x)


def _shape_up_to(x: Tensor, fp8_max: float = E4M3_MAX) -> Tensor:
    return torch.empty_like(x)


def _blocks(x: Tensor, size: int) -> Tensor:
    return x.float().unflatten(-1, (-1, size))


def _power_of_two_ceiling(x: Tensor) -> tuple[Tensor, Tensor]:
    """The smallest power of two at or above a positive normal float32, and its exact reciprocal."""
    bits = x.view(torch.int32)
    exponent = (bits >> _MANTISSA_BITS) + ((bits & _MANTISSA_MASK) != 0).to(torch.int32)
    scale = (exponent << _MANTISSA_BITS).view(torch.float32)
    reciprocal = ((_LARGEST_EXPONENT - exponent) << _MANTISSA_BITS).view(torch.float32)
    return scale, reciprocal


def _round_e2m1(x: Tensor) -> Tensor:
    """Nearest of 0, .5, 1, 1.5, 2, 3, 4, 6 with the sign of x; ties to the even code; |x| must not exceed 6."""
    magnitude = x.abs()
    fine = torch.round(magnitude * 2.0) * 0.5
    middle = torch.round(magnitude)
    coarse = torch.round(magnitude * 0.5) * 2.0
    rounded = torch.where(magnitude < 2.0, fine, torch.where(magnitude < 4.0, middle, coarse))
    return torch.copysign(rounded, x)


@kernel("quantize_fp8(Tensor x, float fp8_max=448.0) -> Tensor", _shape_up_to)
def quantize_fp8(x: Tensor, fp8_max: float = E4M3_MAX) -> Tensor:
    """e4m3 values up to ``fp8_max``, with one power-of-two scale for every 32 elements of the last dimension."""
    blocks = _blocks(x, 32)
    amax = blocks.abs().amax(-1, keepdim=True).clamp_min(ACTIVATION_AMAX_FLOOR)
    scale, reciprocal = _power_of_two_ceiling(amax * (1.0 / fp8_max))
    codes = (blocks * reciprocal).clamp(-fp8_max, fp8_max).to(torch.float8_e4m3fn).float()
    return (codes * scale).flatten(-2).to(x.dtype)


def quantized(x: Tensor, fp8_max: float | None) -> Tensor:
    """:func:`quantize_fp8` up to ``fp8_max``; None leaves x as it is."""
    return x if fp8_max is None else quantize_fp8(x, fp8_max)


@kernel("quantize_fp4(Tensor x) -> Tensor", _shape)
def quantize_fp4(x: Tensor) -> Tensor:
    """e2m1 values with one power-of-two scale for every 32 elements; used for index queries and keys."""
    blocks = _blocks(x, 32)
    amax = blocks.abs().amax(-1, keepdim=True).clamp_min(FP4_E8M0_AMAX_FLOOR)
    scale, reciprocal = _power_of_two_ceiling(amax * (1.0 / E2M1_MAX))
    codes = _round_e2m1((blocks * reciprocal).clamp(-E2M1_MAX, E2M1_MAX))
    return (codes * scale).flatten(-2).to(x.dtype)


@kernel("quantize_fp4_fine(Tensor x, float fp8_max=448.0) -> Tensor", _shape_up_to)
def quantize_fp4_fine(x: Tensor, fp8_max: float = E4M3_MAX) -> Tensor:
    """e2m1 values with one e4m3 scale up to ``fp8_max`` for every 16 elements; used for compressed cache rows."""
    blocks = _blocks(x, 16)
    amax = blocks.abs().amax(-1, keepdim=True).clamp_min(FP4_E4M3_AMAX_FLOOR)
    scale = (amax / E2M1_MAX).clamp(max=fp8_max).to(torch.float8_e4m3fn).float()
    codes = _round_e2m1((blocks / scale).clamp(-E2M1_MAX, E2M1_MAX))
    return (codes * scale).flatten(-2).to(x.dtype)
