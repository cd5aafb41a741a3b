"""Where a bisection stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class SearchProgress:
    """One moment.

    Attributes:
        stage: what is being done.
        size: operations of the candidate that is looked at.
        best: operations of the smallest failing candidate so far; ``total``: of the program
            that is cut, which is the inside of what was found before, in the end.
        probes: runs of the compiler; ``known``: answers from the memo.
        seconds: since the start.
        budget_seconds, budget_probes: after which it stops; None for no limit.
        others: failures met that were not looked for.
    """

    stage: str
    size: int
    best: int
    total: int
    probes: int
    known: int
    seconds: float
    budget_seconds: float | None
    budget_probes: int | None
    others: int


OnProgress = Callable[[SearchProgress], None]
"""Called before and after each candidate, in the thread that searches."""
