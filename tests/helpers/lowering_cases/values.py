"""Operands: random ones, and the values where operators tend to differ."""

from __future__ import annotations

import math

import torch

FLOATS = (torch.float32, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

EDGES = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -7.0, 20.5, 447.0, 300.0, 1e-3, -1e-3, 1e30, -1e30]
SPECIAL = [math.inf, -math.inf, math.nan]


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Normally distributed values."""
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def positive(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Values in (0.1, 4.1)."""
    return (torch.rand(shape, generator=torch.Generator().manual_seed(seed)) * 4 + 0.1).to(dtype)


def edges(dtype: torch.dtype = torch.float32, special: bool = True) -> torch.Tensor:
    """Zeros of both signs, halves, large and small magnitudes, infinities and NaN."""
    return torch.tensor(EDGES + (SPECIAL if special else [])).to(dtype)


def edge_pairs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    """Every edge against every edge."""
    values = edges(dtype)
    return values.repeat(len(values)), values.repeat_interleave(len(values))


def integers(
    *shape: int, low: int = -20, high: int = 20, dtype: torch.dtype = torch.int64, seed: int = 0
) -> torch.Tensor:
    """Integers in [low, high); from zero for unsigned types."""
    start = low if dtype.is_signed else max(low, 0)
    return torch.randint(start, high, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def nonzero_integers(*shape: int, dtype: torch.dtype = torch.int64, seed: int = 0) -> torch.Tensor:
    """Integers of both signs without zero."""
    drawn = integers(*shape, low=-9, high=9, dtype=dtype, seed=seed)
    return torch.where(drawn == 0, torch.ones_like(drawn), drawn)


def booleans(*shape: int, seed: int = 0) -> torch.Tensor:
    """Fair coins."""
    return torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.5


def ties(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    """Few distinct values, so that most are equal to another."""
    return integers(*shape, low=-3, high=3, seed=seed).to(dtype)
