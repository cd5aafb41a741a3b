"""What a target wants from the lowering."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...passes.target_facts import E4M3_MAX, facts_of

Numerics = Literal["fast", "exact"]


@dataclass(frozen=True)
class KernelTarget:
    """What device kernels are compiled for: a target, and the physical cores of its logical cores."""

    name: str
    logical_core_size: int


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
    ``sort``: emit sorts; without it, orders are made by counting, with the same results.
    ``pin_bfloat16``: round to bfloat16 by reduce_precision (IREE 3.13 drops conversions there and back).
    ``kernels_for``: let device kernels of this target replace bodies of operators; None keeps the bodies.
    """

    numerics: Numerics = "fast"
    pad_single_row_dot: bool = True
    float64: bool = False
    float8: bool = True
    e4m3_max: float = E4M3_MAX
    int64: bool = True
    sort: bool = True
    pin_bfloat16: bool = False
    kernels_for: KernelTarget | None = None

    @property
    def exact(self) -> bool:
        """True when the module must reproduce eager PyTorch to the bit."""
        return self.numerics == "exact"


def device_options(target: str) -> LoweringOptions:
    """How modules for a device without float64 and float8 are lowered; raises ConfigError for an unknown target."""
    facts = facts_of(target)
    return LoweringOptions(
        pad_single_row_dot=False,
        float64=False,
        float8=False,
        e4m3_max=facts.e4m3_max,
        int64=facts.has_int64,
        sort=facts.has_sort,
    )
