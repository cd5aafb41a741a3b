"""Which of the model's rounding steps are on."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..errors import ConfigError
from ..passes.target_facts import facts_of
from ..settings import FP8_MAXIMA, settings


@dataclass(frozen=True)
class Numerics:
    """The released model runs with the defaults; the other settings exist to compare with other implementations.

    ``kv_quant``: cache rows and index vectors pass through their fp8 or fp4 grid. ``act_quant``: inputs of quantised
    linears pass through the fp8 grid. ``fp8_max``: the largest fp8 value of activations, cache rows and e4m3 scales,
    one of ``FP8_MAXIMA``; below 448, fp8 weights are read as if their values were halved and their scales doubled.
    Raises ConfigError for another ``fp8_max``.
    """

    dtype: torch.dtype = torch.bfloat16
    kv_quant: bool = True
    act_quant: bool = True
    fp8_max: float = FP8_MAXIMA[0]

    def __post_init__(self) -> None:
        if self.fp8_max not in FP8_MAXIMA:
            raise ConfigError(f"fp8_max={self.fp8_max}: expected one of {', '.join(map(str, FP8_MAXIMA))}")

    @property
    def linear_fp8_max(self) -> float | None:
        """The largest fp8 value of the inputs of quantised linears; None if these are not quantised."""
        return self.fp8_max if self.act_quant else None

    @property
    def rescales_weights(self) -> bool:
        """Whether fp8 weights have to be brought into a smaller range than the one they are stored in."""
        return self.fp8_max < FP8_MAXIMA[0]


def engine_numerics(fp8_max: float = FP8_MAXIMA[0]) -> Numerics:
    """The released numerics in the fp8 range that ``DEEPINFER_NEURON_FP8_MAX`` asks for, else up to ``fp8_max``."""
    return Numerics(fp8_max=settings().fp8_max or fp8_max)


def target_numerics(target: str) -> Numerics:
    """The released numerics in the fp8 range that ``DEEPINFER_NEURON_FP8_MAX`` asks for, else in the target's own.

    Raises ConfigError for an unknown target, and for a range that the target does not have.
    """
    facts = facts_of(target)
    numerics = engine_numerics(facts.fp8_max)
    if numerics.fp8_max > facts.e4m3_max:
        raise ConfigError(
            f"DEEPINFER_NEURON_FP8_MAX={numerics.fp8_max:.0f}: fp8 ends at {facts.e4m3_max:.0f} on {target}; "
            f"unset it, which gives {facts.fp8_max:.0f} there"
        )
    return numerics
