"""Every operation by itself: which ones the compiler fails on alone, and in which ways."""

from __future__ import annotations

from collections.abc import Sequence

from .questions import SubjectQuestions
from .result import SurveyRow


def survey(asked: SubjectQuestions, operations: Sequence[int]) -> list[SurveyRow]:
    """Ask about each operation alone, equal ones once, in the order of the program; raises BudgetSpentError."""
    asked.begin("one by one")
    alike: dict[str, list[int]] = {}
    for index in operations:
        candidate = asked.candidate([index])
        if candidate is not None:
            alike.setdefault(candidate.digest, []).append(index)
    groups = list(alike.values())
    rows = []
    for number, members in enumerate(groups):
        asked.expect([[one[0]] for one in groups[number:]])
        rows.append(_row(asked, members))
    return rows


def _row(asked: SubjectQuestions, members: Sequence[int]) -> SurveyRow:
    fails = asked.fails([members[0]])
    return SurveyRow(tuple(members), asked.subject.items[members[0]], asked.ending([members[0]]), fails)
