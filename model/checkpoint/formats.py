"""The number formats of the checkpoint and its caches, and the block quantisers built from them.

Bytes and codes are ``uint8``; decoded values are ``float32``. A tensor whose dtype is already
``float8_e4m3fn``, ``float8_e8m0fnu`` or ``int8`` is read by its bytes. Formulas: DeepSeek-V4.1
inference code, kernel.py (``act_quant``, ``fp4_act_quant``) and convert.py.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...errors import InputError
from ..config import FP8_BLOCK

E4M3FN_MAX = 448.0
E2M1_MAX = 6.0
COMPRESSED_KV_BLOCK = 16

ACT_AMAX_FLOOR = 1e-4
FP4_E8M0_AMAX_FLOOR = E2M1_MAX * 2.0**-126
FP4_E4M3_AMAX_FLOOR = E2M1_MAX * 2.0**-9

_E2M1_VALUES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0)


def _bytes(stored: Tensor) -> Tensor:
    return stored if stored.dtype == torch.uint8 else stored.view(torch.uint8)


# Elements


def decode_e4m3fn(stored: Tensor) -> Tensor:
    """Bytes -> fp32 as OCP e4m3fn: bias 7, max 448, NaN at 0x7F and 0xFF."""
    return _bytes(stored).view(torch.float8_e4m3fn).float()


def encode_e4m3fn(x: Tensor) -> Tensor:
    """Floats -> bytes, clamped to +-448 and rounded half to even."""
    return x.float().clamp(-E4M3FN_MAX, E4M3FN_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def decode_ue8m0(stored: Tensor) -> Tensor:
    """Bytes -> fp32 powers of two 2^(b - 127); 255 is NaN."""
    return _bytes(stored).view(torch.float8_e8m0fnu).float()


def encode_ue8m0(scale: Tensor) -> Tensor:
    """Positive fp32 powers of two -> exponent bytes."""
    return (scale.float().view(torch.int32) >> 23).to(torch.uint8)


def pow2ceil(x: Tensor) -> Tensor:
    """The smallest power of two not below each positive normal fp32 value, found in its bits."""
    bits = x.float().view(torch.int32)
    exponent = (bits >> 23) + ((bits & 0x7FFFFF) != 0).to(torch.int32)
    return (exponent << 23).view(torch.float32)


def round_e2m1(x: Tensor) -> Tensor:
    """Each value rounded to the e2m1 grid 0, .5, 1, 1.5, 2, 3, 4, 6 in fp32: ties to the even code, zeros signed."""
    magnitude = x.float().abs().clamp(max=E2M1_MAX)
    step = torch.where(magnitude < 2, 0.5, torch.where(magnitude < 4, 1.0, 2.0))
    return torch.copysign(torch.round(magnitude / step) * step, x.float())


def encode_e2m1(x: Tensor) -> Tensor:
    """Floats -> 4-bit codes 0..15, bit 3 the sign, rounded by :func:`round_e2m1`."""
    rounded = round_e2m1(x)
    magnitude = rounded.abs()
    code = torch.where(magnitude < 2, magnitude * 2, torch.where(magnitude < 4, magnitude + 2, magnitude / 2 + 4))
    return code.to(torch.uint8) | (torch.signbit(rounded).to(torch.uint8) << 3)


def pack_e2m1(codes: Tensor) -> Tensor:
    """Codes [..., n] -> bytes [..., n/2]: element 2j in the low nibble of byte j, element 2j+1 in the high one."""
    return codes[..., 0::2] | (codes[..., 1::2] << 4)


def unpack_e2m1(packed: Tensor) -> Tensor:
    """Bytes [..., n/2] -> fp32 [..., n]; code 8 reads as +0, as convert.py's table has it."""
    packed = _bytes(packed)
    codes = torch.stack((packed & 0xF, packed >> 4), dim=-1).flatten(-2)
    return torch.tensor(_E2M1_VALUES)[codes.long()]


# Block quantisers of activations and caches, along the last dimension


def _blocks(x: Tensor, block: int) -> Tensor:
    if x.shape[-1] % block:
        raise InputError(f"last dimension {x.shape[-1]} is not a multiple of the quantisation block {block}")
    return x.float().unflatten(-1, (-1, block))


def _pow2_scales(blocks: Tensor, floor: float, largest: float) -> Tensor:
    """Scales [..., blocks, 1]: the power of two that brings the amax of a block to at most ``largest``."""
    amax = blocks.abs().amax(-1, keepdim=True).clamp(min=floor)
    return pow2ceil(amax * torch.tensor(1.0 / largest, dtype=torch.float32))


def _e4m3_scales(blocks: Tensor, largest: float) -> Tensor:
    amax = blocks.abs().amax(-1, keepdim=True).clamp(min=FP4_E4M3_AMAX_FLOOR)
    return decode_e4m3fn(encode_e4m3fn((amax / E2M1_MAX).clamp(max=largest)))


def act_quant(x: Tensor, block: int = FP8_BLOCK, largest: float = E4M3FN_MAX) -> tuple[Tensor, Tensor]:
    """Linear inputs and window KV: x [..., n] -> e4m3fn bytes [..., n] and ue8m0 scale bytes [..., n/block].

    ``scale = pow2ceil(max(|x|, 1e-4) / largest)`` per block (kernel.py ``act_quant`` with ``scale_fmt="ue8m0"``,
    which divides by 448). No byte stands for more than ``largest``.
    """
    blocks = _blocks(x, block)
    scales = _pow2_scales(blocks, ACT_AMAX_FLOOR, largest)
    return encode_e4m3fn((blocks / scales).clamp(-largest, largest)).flatten(-2), encode_ue8m0(scales).squeeze(-1)


def fp4_act_quant_e8m0(x: Tensor, block: int = FP8_BLOCK) -> tuple[Tensor, Tensor]:
    """Index queries and keys: x [..., n] -> packed e2m1 [..., n/2] and ue8m0 scale bytes [..., n/block]."""
    blocks = _blocks(x, block)
    scales = _pow2_scales(blocks, FP4_E8M0_AMAX_FLOOR, E2M1_MAX)
    return pack_e2m1(encode_e2m1(blocks / scales).flatten(-2)), encode_ue8m0(scales).squeeze(-1)


def fp4_act_quant_e4m3(
    x: Tensor, block: int = COMPRESSED_KV_BLOCK, largest: float = E4M3FN_MAX
) -> tuple[Tensor, Tensor]:
    """Compressed KV: x [..., n] -> packed e2m1 [..., n/2] and e4m3fn scale bytes [..., n/block].

    ``scale = e4m3fn(min(amax / 6, largest))`` with a true division, so rows beyond 2688 saturate with the 448 of the
    inference code.
    """
    blocks = _blocks(x, block)
    scales = _e4m3_scales(blocks, largest)
    return pack_e2m1(encode_e2m1(blocks / scales).flatten(-2)), encode_e4m3fn(scales).squeeze(-1)


def simulate_act_quant(x: Tensor, block: int = FP8_BLOCK, largest: float = E4M3FN_MAX) -> Tensor:
    """x after a round trip through :func:`act_quant`, in x's dtype (bf16 holds every product exactly)."""
    blocks = _blocks(x, block)
    scales = _pow2_scales(blocks, ACT_AMAX_FLOOR, largest)
    values = decode_e4m3fn(encode_e4m3fn((blocks / scales).clamp(-largest, largest)))
    return (values * scales).flatten(-2).to(x.dtype)


def simulate_fp4_e8m0(x: Tensor, block: int = FP8_BLOCK) -> Tensor:
    """x after a round trip through :func:`fp4_act_quant_e8m0`, in x's dtype; a negative zero stays negative."""
    blocks = _blocks(x, block)
    scales = _pow2_scales(blocks, FP4_E8M0_AMAX_FLOOR, E2M1_MAX)
    return (round_e2m1(blocks / scales) * scales).flatten(-2).to(x.dtype)


def simulate_fp4_e4m3(x: Tensor, block: int = COMPRESSED_KV_BLOCK, largest: float = E4M3FN_MAX) -> Tensor:
    """x after a round trip through :func:`fp4_act_quant_e4m3`, in x's dtype; a negative zero stays negative."""
    blocks = _blocks(x, block)
    scales = _e4m3_scales(blocks, largest)
    return (round_e2m1(blocks / scales) * scales).flatten(-2).to(x.dtype)


# Stored weights


def dequantise_rows(values: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """fp32 values [..., n] times fp32 scales [..., n/block], one for each run of block columns."""
    blocks = values.unflatten(-1, (scales.shape[-1], -1))
    return (blocks * scales.unsqueeze(-1)).flatten(-2).to(dtype)


def decode_fp8_weight(weight: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """e4m3fn [out, in] with one ue8m0 scale per 32 x 32 block [ceil(out/32), ceil(in/32)] -> dtype [out, in]."""
    rows, columns = weight.shape
    row_scales = decode_ue8m0(scale).repeat_interleave(FP8_BLOCK, 1)[:, :columns]
    scales = row_scales.repeat_interleave(FP8_BLOCK, 0)[:rows]
    return (decode_e4m3fn(weight) * scales).to(dtype)


def decode_fp4_weight(packed: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """Packed e2m1 [out, in/2] with one ue8m0 scale per row and 32 columns [out, in/32] -> dtype [out, in]."""
    return dequantise_rows(unpack_e2m1(packed), decode_ue8m0(scale), dtype)


def decode_engram_rows(rows: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """e4m3fn [..., n] with one ue8m0 scale per row and 32 columns [..., n/32] -> dtype [..., n]."""
    return dequantise_rows(decode_e4m3fn(rows), decode_ue8m0(scale), dtype)
