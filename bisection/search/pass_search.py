"""Which pass of the pipeline introduces the failure."""

from __future__ import annotations

from collections.abc import Callable

from ...passes.pipeline import PASSES
from ..subjects.subject import Candidate
from .oracle import Oracle

CandidateAt = Callable[[int], Candidate | None]
"""The program after the required passes and so many of the others; None if it cannot be lowered then."""


def introducing_pass(candidate_at: CandidateAt, oracle: Oracle, limit: int | None = None) -> str:
    """The first pass with which the program fails, in words, given that it fails with all of them.

    Passes that the lowering needs always run, so the search is among the others, of which the program had the first
    ``limit``; None for all. Raises BudgetSpentError.
    """
    optional = [(number, entry.name) for number, entry in enumerate(PASSES) if not entry.required]
    oracle.stage = "passes"

    def fails(count: int) -> bool:
        candidate = candidate_at(count)
        return candidate is not None and oracle.fails(candidate)

    count = len(optional) if limit is None else min(limit, len(optional))
    if not fails(count):
        return (
            "not known: the whole program does not fail when the passes run again; give a region that does as --region"
        )
    if fails(0):
        return "no pass: the program fails with none but the passes that every program needs"
    passing, failing = 0, count
    while failing - passing > 1:
        middle = (passing + failing) // 2
        passing, failing = (passing, middle) if fails(middle) else (middle, failing)
    number, name = optional[failing - 1]
    return (
        f"pass {number}, {name}: the program fails with it and not without it "
        f"(DEEPINFER_NEURON_PASS_LIMIT={failing} and {failing - 1})"
    )
