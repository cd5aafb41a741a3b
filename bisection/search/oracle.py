"""The oracle: whether candidates fail in the wanted way, and what was learnt from them besides."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from ...errors import GraphError, LoweringError
from ..probes.probe_runner import ProbeRunner
from ..probes.verdict import Signature, Verdict
from ..subjects.subject import Candidate, Subject
from .interestingness import Interestingness
from .progress import OnProgress, SearchProgress
from .result import HistoryPoint, OtherFailure

COMPILES = "it compiles"
"""What came of a candidate without a failure, for people."""


class Oracle:
    """Tells whether candidates fail in the wanted way; keeps the history, and the failures that were not wanted.

    Attributes:
        stage: name of what is being done, for the history.
        best: operations of the smallest candidate that failed, since they were last counted anew.
    """

    def __init__(self, runner: ProbeRunner, test: Interestingness, on_progress: OnProgress, total: int):
        self.runner = runner
        self.test = test
        self.stage = ""
        self.best = total
        self.history: list[HistoryPoint] = []
        self.on_progress = on_progress
        self._total = total
        self._others: dict[Signature, OtherFailure] = {}

    def fails(self, candidate: Candidate) -> bool:
        """Whether it fails in the wanted way; raises BudgetSpentError."""
        self._report(candidate.size)
        verdicts = self.verdicts(candidate)
        failed = self.test.holds(verdicts)
        if failed:
            self.best = min(self.best, candidate.size)
        self._note(candidate, verdicts)
        self.history.append(HistoryPoint(self.stage, candidate.size, failed, self.runner.probes, self.best))
        self._report(candidate.size)
        return failed

    def verdicts(self, candidate: Candidate) -> list[Verdict]:
        """The runs that decide whether it fails; raises BudgetSpentError."""
        return self.runner.verdicts(candidate, self.test.is_decided)

    def count_anew(self, size: int) -> None:
        """Go on from a failing candidate of this size, whose operations are smaller ones: a kernel's, or a module's."""
        self.best = self._total = size

    def prefetch(self, candidates: Sequence[Candidate]) -> None:
        """Let idle threads look at candidates that may be asked for."""
        self.runner.prefetch(candidates, self.test.is_decided)

    @property
    def others(self) -> list[OtherFailure]:
        """Failures that were met and not wanted, each with the smallest candidate that has it, the smallest first."""
        return sorted(self._others.values(), key=lambda one: (one.candidate.size, str(one.signature)))

    def _note(self, candidate: Candidate, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            seen = verdict.signature
            if seen is None or self.test.accepts(verdict):
                continue
            known = self._others.get(seen, OtherFailure(seen, candidate, 0))
            smaller = min(known.candidate, candidate, key=lambda one: one.size)
            self._others[seen] = replace(known, candidate=smaller, times=known.times + 1)

    def begin(self, stage: str, size: int) -> None:
        """Name what is done next, with a candidate of this size."""
        self.stage = stage
        self._report(size)

    def _report(self, size: int) -> None:
        runner = self.runner
        self.on_progress(
            SearchProgress(
                stage=self.stage,
                size=size,
                best=self.best,
                total=self._total,
                probes=runner.probes,
                known=runner.known,
                seconds=runner.seconds,
                budget_seconds=runner.budget.seconds,
                budget_probes=runner.budget.probes,
                others=len(self._others),
            )
        )


class SubsetOracle:
    """The oracle for sets of items of one subject. A set without a program does not fail.

    ``where`` stands in front of the names of stages, for subjects that are not what the search began with.

    Attributes:
        smallest: the items of the smallest program that failed; None if none did.
    """

    def __init__(self, subject: Subject, oracle: Oracle, where: str = ""):
        self.subject = subject
        self.smallest: frozenset[int] | None = None
        self._oracle = oracle
        self._where = where
        self._candidates: dict[frozenset[int], Candidate | None] = {}

    def begin(self, stage: str) -> None:
        """Name the stage that begins."""
        self._oracle.stage = f"{self._where}{stage}"

    def candidate(self, keep: Collection[int]) -> Candidate | None:
        """The program of these items; None if there is none."""
        chosen = frozenset(keep)
        if chosen not in self._candidates:
            try:
                self._candidates[chosen] = self.subject.candidate(chosen)
            except (GraphError, LoweringError):
                self._candidates[chosen] = None
        return self._candidates[chosen]

    def fails(self, keep: Collection[int]) -> bool:
        """Whether the program of these items fails in the wanted way."""
        candidate = self.candidate(keep)
        failed = candidate is not None and self._oracle.fails(candidate)
        if failed and (self.smallest is None or len(keep) < len(self.smallest)):
            self.smallest = frozenset(keep)
        return failed

    def verdicts(self, keep: Collection[int]) -> list[Verdict]:
        """The runs of the program of these items; none if there is no such program."""
        candidate = self.candidate(keep)
        return [] if candidate is None else self._oracle.verdicts(candidate)

    def ending(self, keep: Collection[int]) -> str:
        """What came of the program of these items, for people, whether or not it is what is looked for."""
        ends = {COMPILES if one.signature is None else str(one.signature) for one in self.verdicts(keep)}
        return "; ".join(sorted(ends)) or "nothing that could be compiled"

    def prefetch(self, sets: Sequence[Collection[int]]) -> None:
        """See ``Oracle.prefetch``."""
        candidates = [self.candidate(keep) for keep in sets[: self._oracle.runner.jobs]]
        self._oracle.prefetch([one for one in candidates if one is not None])
