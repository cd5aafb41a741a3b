"""What is left of the failure when one operation of the minimal program is left out: the proof that it is minimal."""

from __future__ import annotations

from dataclasses import dataclass

from ..subjects.subject import Candidate
from .oracle import SubsetOracle


@dataclass(frozen=True)
class Removal:
    """The minimal program without one of its operations.

    Attributes:
        text: what came of it, for people.
        candidate: the program; None if there is none.
        fails: whether it still fails in the wanted way.
        has_passed: whether it has no failure at all.
    """

    text: str
    candidate: Candidate | None
    fails: bool
    has_passed: bool


def removals(oracle: SubsetOracle) -> list[Removal]:
    """Leave out each operation in turn; raises BudgetSpentError."""
    items = oracle.subject.items
    operations = [index for index, item in enumerate(items) if not item.is_result]
    every = frozenset(range(len(items)))
    oracle.prefetch([every - {index} for index in operations])
    return [_removal(oracle, items[index].name, every - {index}) for index in operations]


def _removal(oracle: SubsetOracle, name: str, keep: frozenset[int]) -> Removal:
    candidate = oracle.candidate(keep)
    if candidate is None:
        return Removal(f"without {name}: nothing is left that could be compiled", None, False, False)
    fails = oracle.fails(keep)
    passed = all(one.signature is None for one in oracle.verdicts(keep))
    return Removal(f"without {name}: {oracle.ending(keep)}", candidate, fails, passed)
