"""Where a miscompilation begins: the first operation whose own result is wrong on the right inputs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from ..search.questions import SubjectQuestions


def first_difference(asked: SubjectQuestions) -> list[int]:
    """The operations of the first part of a program that fails by itself, as small as halving finds it.

    Regions are asked in order, each alone on what the whole program feeds it, then the halves of the first one that
    fails, and so on: one operation for an operation that is compiled wrongly by itself, more for several that are only
    wrong together, and none if no region is wrong by itself. A part is taken to be right if its results are.

    Raises:
        BudgetSpentError: the budget ended before it was found.
    """
    items = asked.subject.items
    operations = [index for index, item in enumerate(items) if not item.is_result]
    asked.begin("first difference")
    for _, members in groupby(operations, key=lambda index: items[index].group):
        found = _first_part(asked, list(members))
        if found:
            return found
    return []


def with_results(asked: SubjectQuestions, members: Sequence[int]) -> list[int]:
    """Operations, and the results of the program that they make."""
    chosen, items = set(members), asked.subject.items
    returned = [index for index, item in enumerate(items) if item.is_result and item.reads and chosen >= {*item.reads}]
    return [*members, *returned]


def _first_part(asked: SubjectQuestions, members: Sequence[int]) -> list[int]:
    if not asked.fails(with_results(asked, members)):
        return []
    if len(members) == 1:
        return [*members]
    middle = len(members) // 2
    return _first_part(asked, members[:middle]) or _first_part(asked, members[middle:]) or [*members]
