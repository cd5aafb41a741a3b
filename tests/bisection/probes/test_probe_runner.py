"""Verdicts from the memo or from probes, several at once."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from bisect_stand_ins import CRASH, StandInProbe, members
from deepinfer_neuron.bisection.probes.memo import Memo
from deepinfer_neuron.bisection.probes.probe_runner import Budget, BudgetSpentError, ProbeRunner
from deepinfer_neuron.bisection.probes.verdict import Verdict
from deepinfer_neuron.bisection.subjects.subject import Candidate
from deepinfer_neuron.errors import CompileCancelledError

PATIENCE_S = 30


def candidate(number: int) -> Candidate:
    return Candidate(1, str(number).encode())


def once(verdicts) -> bool:
    return len(verdicts) >= 1


@pytest.fixture
def memo(tmp_path: Path):
    with Memo(tmp_path / "log.jsonl", "one") as opened:
        yield opened


def test_what_is_known_is_not_probed_again(memo: Memo):
    probe = StandInProbe(lambda items: CRASH if 1 in items else None)
    with ProbeRunner(probe, memo) as runner:
        assert [one.signature for one in runner.verdicts(candidate(1), once)] == [CRASH]
        assert [one.signature for one in runner.verdicts(candidate(2), once)] == [None]
        runner.verdicts(candidate(1), once)
        assert (runner.probes, runner.known) == (2, 1)
    assert probe.asked == [{1}, {2}]


def test_runs_go_on_until_they_are_enough(memo: Memo):
    probe = StandInProbe(lambda items: None)
    with ProbeRunner(probe, memo) as runner:
        runner.verdicts(candidate(1), once)
        assert len(runner.verdicts(candidate(1), lambda verdicts: len(verdicts) >= 5)) == 5
        assert runner.probes == 5


@pytest.mark.parametrize("budget", [Budget(probes=1), Budget(seconds=0.0)])
def test_a_spent_budget_starts_no_probe_but_answers_what_is_known(memo: Memo, budget: Budget):
    memo.end(candidate(1).digest, Verdict(None, 0.0))
    with ProbeRunner(StandInProbe(lambda items: None), memo, budget=budget) as runner:
        runner.verdicts(candidate(1), once)
        with pytest.raises(BudgetSpentError):
            runner.verdicts(candidate(2), lambda verdicts: len(verdicts) >= 2)
        runner.verdicts(candidate(1), once)


class BlockingProbe:
    """A stand-in for a compiler that takes long: runs until it is cancelled or released."""

    def __init__(self) -> None:
        self.release = threading.Event()
        self.cancelled: list[set[int]] = []
        self.started = threading.Semaphore(0)

    def __call__(self, candidate: Candidate, cancel: threading.Event) -> Verdict:
        self.started.release()
        while not self.release.is_set():
            if cancel.wait(0.01):
                self.cancelled.append(members(candidate))
                raise CompileCancelledError("cancelled")
        return Verdict(None, 0.0)


def test_a_budget_of_time_ends_a_probe_that_runs(memo: Memo):
    probe = BlockingProbe()
    with ProbeRunner(probe, memo, budget=Budget(seconds=0.2)) as runner:
        with pytest.raises(BudgetSpentError):
            runner.verdicts(candidate(1), once)
        assert probe.cancelled == [{1}]
    assert memo.verdicts(candidate(1).digest) == []


def test_what_is_no_longer_expected_is_ended_and_leaves_no_verdict(memo: Memo):
    probe = BlockingProbe()
    with ProbeRunner(probe, memo, jobs=2) as runner:
        runner.prefetch([candidate(1), candidate(2), candidate(3)], once)
        for _ in range(2):
            assert probe.started.acquire(timeout=PATIENCE_S)
        runner.prefetch([candidate(2), candidate(4)], once)
        assert probe.started.acquire(timeout=PATIENCE_S)
        assert probe.cancelled == [{1}]
        probe.release.set()
        runner.verdicts(candidate(2), once)
        runner.verdicts(candidate(4), once)
    assert memo.verdicts(candidate(1).digest) == []
    assert memo.verdicts(candidate(3).digest) == []
    assert runner.probes == 3


def test_one_that_was_not_expected_does_not_wait_for_those_that_were(memo: Memo):
    class OnlyThree(BlockingProbe):
        def __call__(self, candidate: Candidate, cancel: threading.Event) -> Verdict:
            return Verdict(None, 0.0) if members(candidate) == {3} else super().__call__(candidate, cancel)

    probe = OnlyThree()
    with ProbeRunner(probe, memo, jobs=2) as runner:
        runner.prefetch([candidate(1), candidate(2)], once)
        assert runner.verdicts(candidate(3), once) == [Verdict(None, 0.0)]


def test_closing_ends_what_runs(memo: Memo):
    probe = BlockingProbe()
    runner = ProbeRunner(probe, memo, jobs=2)
    runner.prefetch([candidate(1), candidate(2)], once)
    for _ in range(2):
        assert probe.started.acquire(timeout=PATIENCE_S)
    runner.close()
    assert len(probe.cancelled) == 2
    assert memo.interrupted(candidate(1).digest) == 0


def test_a_candidate_that_ends_this_process_again_and_again_is_given_up(tmp_path: Path):
    digest = candidate(1).digest
    for _ in range(3):
        with Memo(tmp_path / "log.jsonl", "one") as memo:
            memo.start(digest)
    probe = StandInProbe(lambda items: None)
    with Memo(tmp_path / "log.jsonl", "one") as memo, ProbeRunner(probe, memo) as runner:
        (verdict,) = runner.verdicts(candidate(1), once)
        assert verdict.signature is not None
        assert verdict.signature.outcome == "invalid"
        assert probe.asked == []


def test_an_interrupt_right_after_a_probe_was_begun_leaves_nothing_running(memo: Memo, monkeypatch):
    """Ctrl-C comes in the thread that asks, before it has what the pool returns."""
    probe = BlockingProbe()
    runner = ProbeRunner(probe, memo)
    submit = runner._pool.submit

    def interrupted(*arguments: object) -> None:
        submit(*arguments)
        assert probe.started.acquire(timeout=PATIENCE_S)
        raise KeyboardInterrupt

    monkeypatch.setattr(runner._pool, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        runner.verdicts(candidate(1), once)
    runner.close()
    assert probe.cancelled == [{1}]
