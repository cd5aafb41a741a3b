"""A simpler graph that may still fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from torch import fx


@dataclass(frozen=True)
class Proposal:
    """``title`` says what is simpler, for people; ``aliases`` maps outputs to the inputs whose memory they reuse."""

    title: str
    module: fx.GraphModule = field(compare=False)
    aliases: Mapping[int, int]


Proposer = Callable[[fx.GraphModule, Mapping[int, int]], Iterator[Proposal]]
"""Simpler graphs than the given one, the simplest first; none if it knows no more."""
