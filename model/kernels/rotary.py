"""Rotary position embedding (Su et al. 2021, arXiv:2104.09864) on the last channels of a head."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..config import RopeScaling
from .library import kernel


def frequencies(theta: float, rope_dim: int, scaling: RopeScaling | None) -> Tensor:
    """Angular frequency of each channel pair, float32 [rope_dim / 2]; YaRN-interpolated where scaling is given."""
    base = 1.0 / theta ** (torch.arange(0, rope_dim, 2, dtype=torch.float32) / rope_dim)
    if scaling is None:
        return base

    def correction(rotations: float) -> float:
        ratio = scaling.original_max_position_embeddings / (rotations * 2.0 * math.pi)
        return rope_dim * math.log(ratio) / (2.0 * math.log(theta))

    low = max(math.floor(correction(scaling.beta_fast)), 0)
    high = min(math.ceil(correction(scaling.beta_slow)), rope_dim - 1)
    pair = torch.arange(rope_dim // 2, dtype=torch.float32)
    ramp = ((pair - low) / max(high - low, 1e-3)).clamp(0.0, 1.0)
    return base / scaling.factor * ramp + base * (1.0 - ramp)


def rotation_tables(theta: float, rope_dim: int, scaling: RopeScaling | None, positions: int) -> tuple[Tensor, Tensor]:
    """cos and sin of position times frequency, each float32 [positions, rope_dim / 2]."""
    angle = torch.outer(torch.arange(positions, dtype=torch.float32), frequencies(theta, rope_dim, scaling))
    return torch.cos(angle.double()).float(), torch.sin(angle.double()).float()


def _shape(x: Tensor, cos: Tensor, sin: Tensor, inverse: bool) -> Tensor:
    return torch.empty_like(x)


@kernel("rotate(Tensor x, Tensor cos, Tensor sin, bool inverse) -> Tensor", _shape)
def rotate(x: Tensor, cos: Tensor, sin: Tensor, inverse: bool) -> Tensor:
    """Rotate adjacent channel pairs of the last 2n channels of x [M, ..., D] by the angles of cos, sin [M, n].

    Real float32 arithmetic, result in x's dtype. ``inverse`` rotates back.
    """
    pairs = cos.shape[-1]
    broadcast = (cos.shape[0], *[1] * (x.dim() - 2), pairs)
    cos = cos.view(broadcast)
    sin = -sin.view(broadcast) if inverse else sin.view(broadcast)
    even, odd = x[..., -2 * pairs :].float().unflatten(-1, (pairs, 2)).unbind(-1)
    rotated = torch.stack((even * cos - odd * sin, even * sin + odd * cos), -1).flatten(-2)
    return torch.cat((x[..., : -2 * pairs], rotated.to(x.dtype)), -1)
