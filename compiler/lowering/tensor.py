"""A value of the module under construction, with the PyTorch type it stands for."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxlib.mlir import ir

MLIR_NAMES: dict[torch.dtype, str] = {
    torch.bool: "i1",
    torch.int8: "i8",
    torch.int16: "i16",
    torch.int32: "i32",
    torch.int64: "i64",
    torch.uint8: "ui8",
    torch.uint16: "ui16",
    torch.uint32: "ui32",
    torch.uint64: "ui64",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float32: "f32",
    torch.float64: "f64",
    torch.float8_e4m3fn: "f8E4M3FN",
    torch.float8_e5m2: "f8E5M2",
}

SATURATING: dict[torch.dtype, float] = {torch.float8_e4m3fn: 448.0}
"""Types without infinities: PyTorch clamps to this magnitude where StableHLO's convert would give NaN."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """An SSA value with its dtype and shape.

    ``source`` and ``permutation`` remember the operand of a transpose, so that a dot can read the
    untransposed value through its contracting dimensions. ``narrow`` remembers the bfloat16 value that was
    widened to this one.
    """

    value: ir.Value
    dtype: torch.dtype
    shape: tuple[int, ...]
    source: Tensor | None = None
    permutation: tuple[int, ...] = ()
    narrow: Tensor | None = None

    @property
    def rank(self) -> int:
        """Number of dimensions."""
        return len(self.shape)


def is_float(dtype: torch.dtype) -> bool:
    """True for every real floating point type, fp8 included."""
    return dtype.is_floating_point


def computation_dtype(dtype: torch.dtype) -> torch.dtype:
    """The type PyTorch's CPU kernels compute in: float32 for every narrower float ("opmath")."""
    return torch.float32 if is_float(dtype) and dtype.itemsize < 4 else dtype
