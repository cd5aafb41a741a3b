"""Where a miscompilation begins: the first operation whose own result is wrong on the right inputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..search.oracle import SubsetOracle


def first_difference(oracle: SubsetOracle) -> list[int]:
    """The operations of the first part of a program that fails by itself, as small as halving finds it.

    Regions are asked in order, each alone on what the whole program feeds it, then the halves of the first one that
    fails, and so on: one operation for an operation that is compiled wrongly by itself, more for several that are only
    wrong together, and none if no region is wrong by itself. A part is taken to be right if its results are.

    Raises:
        BudgetSpentError: the budget ended before it was found.
    """
    items = oracle.subject.items
    operations = [index for index, item in enumerate(items) if not item.is_result]
    oracle.begin("first difference")
    for _, members in groupby(operations, key=lambda index: items[index].group):
        found = _first_part(oracle, list(members))
        if found:
            return found
    return []


def with_results(oracle: SubsetOracle, members: Sequence[int]) -> list[int]:
    """Operations, and the results of the program that they make."""
    chosen, items = set(members), oracle.subject.items
    returned = [index for index, item in enumerate(items) if item.is_result and item.reads and chosen >= {*item.reads}]
    return [*members, *returned]


def _first_part(oracle: SubsetOracle, members: Sequence[int]) -> list[int]:
    if not oracle.fails(with_results(oracle, members)):
        return []
    if len(members) == 1:
        return [*members]
    middle = len(members) // 2
    return _first_part(oracle, members[:middle]) or _first_part(oracle, members[middle:]) or [*members]
