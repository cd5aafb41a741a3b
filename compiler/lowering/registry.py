"""Which rule lowers which operator overload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from torch._ops import OpOverload

Rule = Callable[..., Any]
RuleT = TypeVar("RuleT", bound=Rule)

LOWERINGS: dict[OpOverload, Rule] = {}


def lowers(*overloads: OpOverload) -> Callable[[RuleT], RuleT]:
    """Register a rule ``(emitter, result, *args, **kwargs) -> Tensor`` (or a tuple) for these overloads.

    ``result`` is the TensorType of the output, or a tuple of them; tensor arguments arrive as
    ``Tensor`` and everything else as it stands in the graph.
    """

    def register(rule: RuleT) -> RuleT:
        for overload in overloads:
            if overload in LOWERINGS:
                raise ValueError(f"{overload} has two lowering rules")
            LOWERINGS[overload] = rule
        return rule

    return register
