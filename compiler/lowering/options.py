"""What a target wants from the lowering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Numerics = Literal["fast", "exact"]


@dataclass(frozen=True)
class LoweringOptions:
    """Choices that change the emitted module but not its meaning.

    ``numerics``: "fast" leaves rounding details to the target compiler; "exact" emits eager
    PyTorch's CPU order of operations, so that a strict compiler gives the same bits.
    ``pad_single_row_dot``: compute dots with one row on two rows and drop the second
    (XLA:CPU takes a slow path for matrix-vector products).
    ``float64``: keep float64 arithmetic; without it, it is narrowed to float32.
    """

    numerics: Numerics = "fast"
    pad_single_row_dot: bool = True
    float64: bool = False

    @property
    def exact(self) -> bool:
        """True when the module must reproduce eager PyTorch to the bit."""
        return self.numerics == "exact"
