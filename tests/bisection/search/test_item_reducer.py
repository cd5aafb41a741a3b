"""Regions, results and operations of a subject, with a stand-in for its compiler."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from bisect_stand_ins import CRASH, OTHER, NumberedSubject, StandInProbe
from deepinfer_neuron.bisection.probes.memo import Memo
from deepinfer_neuron.bisection.probes.probe_runner import Budget, BudgetSpentError, ProbeRunner
from deepinfer_neuron.bisection.probes.verdict import Signature, Verdict
from deepinfer_neuron.bisection.search.interestingness import Interestingness
from deepinfer_neuron.bisection.search.item_reducer import reduce_items
from deepinfer_neuron.bisection.search.oracle import Oracle, SubsetOracle
from deepinfer_neuron.bisection.search.result import SurveyRow


class Run:
    """One reduction, and what it took."""

    def __init__(
        self,
        directory: Path,
        subject: NumberedSubject,
        answer: Callable[[set[int]], Signature | None],
        said: str = "",
        jobs: int = 1,
        budget: Budget | None = None,
    ):
        self.probe = StandInProbe(answer)
        self.accepted: list[tuple[str, list[int]]] = []
        self.kept: list[int] | None = None
        with (
            Memo(directory / "log.jsonl", "one") as memo,
            ProbeRunner(self.probe, memo, jobs, budget) as runner,
        ):
            self.questions = Oracle(runner, Interestingness(CRASH), lambda progress: None, subject.operations)
            asked = SubsetOracle(subject, self.questions)
            with suppress(BudgetSpentError):
                self.kept = reduce_items(asked, [Verdict(CRASH, 0.0, said)], self._accept)

    def _accept(self, stage: str, kept: list[int]) -> None:
        self.accepted.append((stage, sorted(kept)))


def crash_with(*needed: int) -> Callable[[set[int]], Signature | None]:
    return lambda items: CRASH if set(needed) <= items else None


def test_regions_come_first_then_results_then_operations(tmp_path: Path):
    subject = NumberedSubject(operations=100, results=4, groups=10)
    run = Run(tmp_path, subject, crash_with(13, 77))
    assert run.kept == [13, 77]
    assert [stage for stage, _ in run.accepted] == ["named lines", "regions", "results", "operations"]
    assert run.accepted[1][1] == [*range(10, 20), *range(70, 80), *range(100, 104)]
    assert run.accepted[2][1] == [*range(10, 20), *range(70, 80)]
    assert len(run.probe.asked) < 25


def test_lines_that_the_compiler_names_are_asked_about_first(tmp_path: Path):
    lines = {number: f"model/moe.py:{80 + number // 2}" for number in range(100)}
    subject = NumberedSubject(operations=100, lines=lines)
    run = Run(tmp_path, subject, crash_with(61), said="at loc(model/moe.py:110): too large")
    assert run.kept == [61]
    assert run.probe.asked[0] == {60, 61}
    assert len(run.probe.asked) <= 4


def test_lines_that_the_compiler_names_wrongly_cost_one_question(tmp_path: Path):
    subject = NumberedSubject(operations=100, lines={3: "model/moe.py:80"})
    run = Run(tmp_path, subject, crash_with(61), said="model/moe.py:80")
    assert run.kept == [61]


def test_a_result_that_matters_stays(tmp_path: Path):
    subject = NumberedSubject(operations=20, results=3)
    run = Run(tmp_path, subject, crash_with(5, 21))
    assert run.kept == [5, 21]


@pytest.mark.parametrize("jobs", [2, 3])
def test_several_jobs_give_what_one_gives(tmp_path: Path, jobs: int):
    subject = NumberedSubject(operations=200, results=5, groups=7)
    alone = Run(tmp_path / "alone", subject, crash_with(30, 31, 150))
    together = Run(tmp_path / "together", subject, crash_with(30, 31, 150), jobs=jobs)
    assert together.kept == alone.kept == [30, 31, 150]
    assert together.accepted == alone.accepted
    asked = [(point.stage, point.size, point.failed, point.best) for point in alone.questions.history]
    assert [(one.stage, one.size, one.failed, one.best) for one in together.questions.history] == asked


def test_other_failures_are_kept_with_their_smallest_candidate(tmp_path: Path):
    def answer(items: set[int]) -> Signature | None:
        return OTHER if 13 in items and 61 not in items else crash_with(61)(items)

    run = Run(tmp_path, NumberedSubject(operations=100), answer)
    assert run.kept == [61]
    (other,) = run.questions.others
    assert other.signature == OTHER
    assert other.candidate.size == min(len(one) for one in run.probe.asked if 13 in one and 61 not in one)


def test_a_spent_budget_leaves_the_best_so_far(tmp_path: Path):
    subject = NumberedSubject(operations=100, groups=10)
    run = Run(tmp_path, subject, crash_with(13, 77), budget=Budget(probes=12))
    assert run.kept is None
    assert run.accepted[-1][0] in ("regions", "results")
    assert {13, 77} <= set(run.accepted[-1][1])


def test_another_process_goes_on_without_asking_again(tmp_path: Path):
    subject = NumberedSubject(operations=100, groups=10)
    first = Run(tmp_path, subject, crash_with(13, 77), budget=Budget(probes=12))
    second = Run(tmp_path, subject, crash_with(13, 77))
    assert second.kept == [13, 77]
    assert not [one for one in second.probe.asked if one in first.probe.asked]
    straight = Run(tmp_path / "straight", subject, crash_with(13, 77))
    assert len(first.probe.asked) + len(second.probe.asked) == len(straight.probe.asked)


def test_every_operation_alone_is_listed_and_the_first_that_fails_is_taken(tmp_path: Path):
    subject = NumberedSubject(operations=30, groups=3)
    probe = StandInProbe(lambda items: CRASH if {13, 17} & items else OTHER if 15 in items else None)
    rows: list[SurveyRow] = []
    with Memo(tmp_path / "log.jsonl", "one") as memo, ProbeRunner(probe, memo) as runner:
        asked = SubsetOracle(subject, Oracle(runner, Interestingness(CRASH), lambda progress: None, 30))
        kept = reduce_items(asked, (), lambda stage, kept: None, rows.extend)
    assert kept == [13]
    assert [row.items for row in rows] == [(number,) for number in range(10, 20)]
    assert [row.items[0] for row in rows if row.fails] == [13, 17]
    assert [row.text for row in rows if row.items == (15,)] == [str(OTHER)]
