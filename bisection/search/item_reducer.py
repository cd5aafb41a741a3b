"""Reduce a subject to the fewest items that fail: what the compiler names, then regions, results and operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import groupby

from ..probes.verdict import Verdict
from .minimal_subset import minimal_subset, sorted_like
from .oracle import SubsetOracle
from .result import SurveyRow

_LINE = re.compile(r"[\w./-]+\.py:\d+")

KeepItems = Callable[[str, Sequence[int]], None]
"""Called with the name of a stage and the items that fail after it."""

NoteSurvey = Callable[[Sequence[SurveyRow]], None]
"""Called with what came of each operation alone."""


def reduce_items(
    oracle: SubsetOracle,
    verdicts: Sequence[Verdict],
    keep: KeepItems = lambda stage, items: None,
    note_survey: NoteSurvey | None = None,
) -> list[int]:
    """The items of a smallest program that fails, given that the whole one does.

    Args:
        oracle: for the subject.
        verdicts: on the whole program; lines of the model that they name are looked at first.
        keep: called after each stage, so that an interrupted search leaves the best so far.
        note_survey: called with what came of each operation alone, which is asked between regions and results then;
            the first one that fails alone is the result.

    Raises:
        BudgetSpentError: the last call of ``keep`` has the best so far.
    """
    items = oracle.subject.items
    results = [index for index, item in enumerate(items) if item.is_result]
    operations = [index for index, item in enumerate(items) if not item.is_result]
    for name, reduce in (("named lines", _named_lines), ("regions", _regions)):
        oracle.begin(name)
        operations = reduce(oracle, operations, results, verdicts)
        keep(name, [*operations, *results])
    if note_survey is not None:
        operations = _one_by_one(oracle, operations, note_survey)
        keep("one by one", [*operations, *results])
    oracle.begin("results")
    results = _results(oracle, operations, results)
    keep("results", [*operations, *results])
    oracle.begin("operations")
    operations = _fewest(oracle, operations, lambda chosen: [*chosen, *results])
    keep("operations", [*operations, *results])
    return [*operations, *results]


def _named_lines(
    oracle: SubsetOracle, operations: list[int], results: list[int], verdicts: Sequence[Verdict]
) -> list[int]:
    """The operations of the lines that the compiler names, if they fail by themselves."""
    lines = {line for verdict in verdicts for line in _LINE.findall(verdict.log)}
    named = [index for index in operations if oracle.subject.items[index].line in lines]
    worthwhile = 0 < len(named) <= len(operations) // 2
    return named if worthwhile and oracle.fails([*named, *results]) else operations


def _regions(oracle: SubsetOracle, operations: list[int], results: list[int], verdicts: Sequence[Verdict]) -> list[int]:
    """The operations of the fewest regions that fail."""
    items = oracle.subject.items
    regions = [list(members) for _, members in groupby(operations, key=lambda index: items[index].group)]
    if len(regions) == 1:
        return operations

    def members(chosen: Collection[int]) -> list[int]:
        return [index for region in sorted(chosen) for index in regions[region]]

    return members(_fewest(oracle, range(len(regions)), lambda chosen: [*members(chosen), *results]))


def _one_by_one(oracle: SubsetOracle, operations: list[int], note: NoteSurvey) -> list[int]:
    """The first operation that fails alone; all of them if none does."""
    oracle.begin("one by one")
    alike: dict[str, list[int]] = {}
    for index in operations:
        candidate = oracle.candidate([index])
        if candidate is not None:
            alike.setdefault(candidate.digest, []).append(index)
    groups = list(alike.values())
    rows = []
    for number, members in enumerate(groups):
        oracle.prefetch([[one[0]] for one in groups[number:]])
        first = members[:1]
        fails = oracle.fails(first)
        rows.append(SurveyRow(tuple(members), oracle.subject.items[first[0]], oracle.ending(first), fails))
    note(rows)
    return next(([row.items[0]] for row in rows if row.fails), operations)


def _results(oracle: SubsetOracle, operations: list[int], results: list[int]) -> list[int]:
    """The fewest results that have to be returned, beside those that nothing else reads."""
    if not results or oracle.fails(operations):
        return []
    return _fewest(oracle, results, lambda chosen: [*operations, *sorted_like(results, chosen)])


def _fewest(
    oracle: SubsetOracle, choices: Sequence[int], items_of: Callable[[Collection[int]], list[int]]
) -> list[int]:
    """The fewest choices whose items fail."""
    return minimal_subset(
        choices,
        lambda chosen: oracle.fails(items_of(chosen)),
        lambda sets: oracle.prefetch([items_of(one) for one in sets]),
    )
