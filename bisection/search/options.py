"""How to search for the smallest failing program."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from torch import fx

from ..probes.signature import Match
from ..probes.verdict import Signature


@dataclass(frozen=True)
class BisectOptions:
    """How to search.

    Attributes:
        wanted: the failure to look for; None for the first that comes.
        match: what of a failure has to agree with it.
        repeats: runs of the whole program and of the minimal one.
        simplify: look for smaller shapes and fewer inputs, and inside kernels and modules.
        reduce_others: reduce failures that were met and not looked for as well.
        one_by_one: also compile every operation of the failing regions alone, to list all that fail so.
        prepare: called with each graph before it is cut.
    """

    wanted: Signature | None = None
    match: Match = "signature"
    repeats: int = 2
    simplify: bool = True
    reduce_others: bool = True
    one_by_one: bool = False
    prepare: Callable[[fx.GraphModule], None] = lambda module: None
