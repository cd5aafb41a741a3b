"""How to search for the smallest failing program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import fx

from ..probes.failure_signature import Match


@dataclass(frozen=True)
class SearchOptions:
    """How to search.

    Attributes:
        match: what of a failure has to agree with the one that comes first.
        repeats: runs of the whole program and of the minimal one.
        simplify: look for smaller shapes and fewer inputs, and inside kernels and modules.
        one_by_one: also compile every operation of the failing regions alone, to list all that fail so.
        prepare: called with each graph before it is cut.
    """

    match: Match = "signature"
    repeats: int = 2
    simplify: bool = True
    one_by_one: bool = False
    prepare: Callable[[fx.GraphModule], None] = lambda module: None
