"""The numerics of a model that is compiled for a target."""

from __future__ import annotations

from .errors import ConfigError
from .model.numerics import Numerics, engine_numerics
from .passes.target_facts import facts_of


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
