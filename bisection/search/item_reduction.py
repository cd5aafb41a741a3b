"""Reduce a subject to the fewest items that fail: what the compiler names, then regions, results and operations."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from itertools import groupby

from ..probes.verdict import Verdict
from .questions import SubjectQuestions
from .result import SurveyRow
from .search import minimal_subset, sorted_like
from .survey import survey

_LINE = re.compile(r"[\w./-]+\.py:\d+")

Accept = Callable[[str, Sequence[int]], None]
"""Called with the name of a stage and the items that fail after it."""

NoteSurvey = Callable[[Sequence[SurveyRow]], None]
"""Called with what came of each operation alone."""


def reduce_items(
    asked: SubjectQuestions,
    verdicts: Sequence[Verdict],
    accept: Accept,
    note_survey: NoteSurvey | None = None,
) -> list[int]:
    """The items of a smallest program that fails, given that the whole one does.

    Args:
        asked: about the subject.
        verdicts: on the whole program; lines of the model that they name are looked at first.
        accept: called after each stage, so that an interrupted search leaves the best so far.
        note_survey: called with what came of each operation alone, which is asked between regions and results then;
            the first one that fails alone is the result.

    Raises:
        BudgetSpentError: the last call of ``accept`` has the best so far.
    """
    items = asked.subject.items
    results = [index for index, item in enumerate(items) if item.is_result]
    operations = [index for index, item in enumerate(items) if not item.is_result]
    for name, reduce in (("named lines", _named_lines), ("regions", _regions)):
        asked.begin(name)
        operations = reduce(asked, operations, results, verdicts)
        accept(name, [*operations, *results])
    if note_survey is not None:
        operations = _one_by_one(asked, operations, note_survey)
        accept("one by one", [*operations, *results])
    asked.begin("results")
    results = _results(asked, operations, results)
    accept("results", [*operations, *results])
    asked.begin("operations")
    operations = _subset(asked, operations, results)
    accept("operations", [*operations, *results])
    return [*operations, *results]


def _named_lines(
    asked: SubjectQuestions, operations: list[int], results: list[int], verdicts: Sequence[Verdict]
) -> list[int]:
    """The operations of the lines that the compiler names, if they fail by themselves."""
    lines = {line for verdict in verdicts for line in _LINE.findall(verdict.log)}
    named = [index for index in operations if asked.subject.items[index].line in lines]
    worthwhile = 0 < len(named) <= len(operations) // 2
    return named if worthwhile and asked.fails([*named, *results]) else operations


def _regions(
    asked: SubjectQuestions, operations: list[int], results: list[int], verdicts: Sequence[Verdict]
) -> list[int]:
    """The operations of the fewest regions that fail."""
    items = asked.subject.items
    regions = [list(members) for _, members in groupby(operations, key=lambda index: items[index].group)]
    if len(regions) == 1:
        return operations

    def members(chosen: Collection[int]) -> list[int]:
        return [*(index for region in sorted(chosen) for index in regions[region]), *results]

    needed = minimal_subset(
        range(len(regions)),
        lambda chosen: asked.fails(members(chosen)),
        lambda sets: asked.expect([members(one) for one in sets]),
    )
    return [index for region in needed for index in regions[region]]


def _one_by_one(asked: SubjectQuestions, operations: list[int], note: NoteSurvey) -> list[int]:
    rows = survey(asked, operations)
    note(rows)
    failing = [row.items[0] for row in rows if row.fails]
    return failing[:1] or operations


def _results(asked: SubjectQuestions, operations: list[int], results: list[int]) -> list[int]:
    """The fewest results that have to be returned, beside those that nothing else reads."""
    if not results or asked.fails(operations):
        return []
    return minimal_subset(
        results,
        lambda chosen: asked.fails([*operations, *sorted_like(results, chosen)]),
        lambda sets: asked.expect([[*operations, *sorted_like(results, one)] for one in sets]),
    )


def _subset(asked: SubjectQuestions, operations: list[int], results: list[int]) -> list[int]:
    return minimal_subset(
        operations,
        lambda chosen: asked.fails([*chosen, *results]),
        lambda sets: asked.expect([[*one, *results] for one in sets]),
    )
