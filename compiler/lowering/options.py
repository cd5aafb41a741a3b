"""What a target wants from the lowering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...passes.float8 import E4M3_MAX

Numerics = Literal["fast", "exact"]


@dataclass(frozen=True)
class LoweringOptions:
    """Choices that change the emitted module but not its meaning.

    ``numerics``: "fast" leaves rounding details to the target compiler; "exact" emits eager
    PyTorch's CPU order of operations, so that a strict compiler gives the same bits.
    ``pad_single_row_dot``: compute dots with one row on two rows and drop the second
    (XLA:CPU takes a slow path for matrix-vector products).
    ``float64``: keep float64 arithmetic; without it, it is narrowed to float32.
    ``float8``: emit float8 types; without them, values in these formats are uint8 codes everywhere.
    ``e4m3_max``: where codes of float8_e4m3fn saturate.
    ``int64``: compute on int64; without it, decompositions are narrowed and graphs must have been.
    """

    numerics: Numerics = "fast"
    pad_single_row_dot: bool = True
    float64: bool = False
    float8: bool = True
    e4m3_max: float = E4M3_MAX
    int64: bool = True

    @property
    def exact(self) -> bool:
        """True when the module must reproduce eager PyTorch to the bit."""
        return self.numerics == "exact"
