"""Questions about candidates, and what was learnt from them beside the answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from ...errors import GraphError, LoweringError
from ..probes.prober import Prober
from ..probes.verdict import Signature, Verdict
from ..subjects.subject import Candidate, Subject
from .criterion import Criterion
from .progress import Progress
from .result import HistoryPoint, OtherFailure

PASSES = "it compiles"
"""What came of a candidate without a failure, for people."""

Watch = Callable[[Progress], None]
"""Called before and after each question, in the thread that asks."""


class Questions:
    """Asks whether candidates fail in the wanted way; keeps the history, and the failures that were not wanted.

    Attributes:
        stage: name of what is being done, for the history.
        best: operations of the smallest candidate that failed, since they were last counted anew.
    """

    def __init__(self, prober: Prober, criterion: Criterion, watch: Watch, total: int):
        self.prober = prober
        self.criterion = criterion
        self.stage = ""
        self.best = total
        self.history: list[HistoryPoint] = []
        self.watch = watch
        self._total = total
        self._others: dict[Signature, OtherFailure] = {}

    def fails(self, candidate: Candidate) -> bool:
        """Whether it fails in the wanted way; raises BudgetSpentError."""
        self._report(candidate.size)
        verdicts = self.prober.ask(candidate, self.criterion.is_enough)
        failed = self.criterion.failed(verdicts)
        if failed:
            self.best = min(self.best, candidate.size)
        self._note(candidate, verdicts)
        self.history.append(HistoryPoint(self.stage, candidate.size, failed, self.prober.probes, self.best))
        self._report(candidate.size)
        return failed

    def count_anew(self, size: int) -> None:
        """Go on from a failing candidate of this size, whose operations are smaller ones: a kernel's, or a module's."""
        self.best = self._total = size

    def expect(self, candidates: Sequence[Candidate]) -> None:
        """Let idle threads look at candidates that may be asked for."""
        self.prober.expect(candidates, self.criterion.is_enough)

    @property
    def others(self) -> list[OtherFailure]:
        """Failures that were met and not wanted, each with the smallest candidate that has it, the smallest first."""
        return sorted(self._others.values(), key=lambda one: (one.candidate.size, str(one.signature)))

    def _note(self, candidate: Candidate, verdicts: Sequence[Verdict]) -> None:
        for verdict in verdicts:
            seen = verdict.signature
            if seen is None or self.criterion.accepts(verdict):
                continue
            known = self._others.get(seen)
            if known is None:
                self._others[seen] = OtherFailure(seen, candidate, 1)
            else:
                smaller = min(known.candidate, candidate, key=lambda one: one.size)
                self._others[seen] = replace(known, candidate=smaller, times=known.times + 1)

    def begin(self, stage: str, size: int) -> None:
        """Name what is done next, with a candidate of this size."""
        self.stage = stage
        self._report(size)

    def _report(self, size: int) -> None:
        prober = self.prober
        self.watch(
            Progress(
                stage=self.stage,
                size=size,
                best=self.best,
                total=self._total,
                probes=prober.probes,
                known=prober.known,
                seconds=prober.seconds,
                budget_seconds=prober.budget.seconds,
                budget_probes=prober.budget.probes,
                others=len(self._others),
            )
        )


class SubjectQuestions:
    """Questions about sets of items of one subject. A set without a program does not fail.

    ``where`` stands in front of the names of stages, for subjects that are not what the search began with.

    Attributes:
        smallest: the items of the smallest program that failed; None if none did.
    """

    def __init__(self, subject: Subject, questions: Questions, where: str = ""):
        self.subject = subject
        self.questions = questions
        self.smallest: frozenset[int] | None = None
        self._where = where
        self._candidates: dict[frozenset[int], Candidate | None] = {}

    def begin(self, stage: str) -> None:
        """Name the stage that the next questions belong to."""
        self.questions.stage = f"{self._where}{stage}"

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
        failed = candidate is not None and self.questions.fails(candidate)
        if failed and (self.smallest is None or len(keep) < len(self.smallest)):
            self.smallest = frozenset(keep)
        return failed

    def ending(self, keep: Collection[int]) -> str:
        """What came of the program of these items, for people, whether or not it is what is looked for."""
        candidate = self.candidate(keep)
        if candidate is None:
            return "nothing that could be compiled"
        verdicts = self.questions.prober.ask(candidate, self.questions.criterion.is_enough)
        ends = sorted({PASSES if one.signature is None else str(one.signature) for one in verdicts})
        return "; ".join(ends)

    def expect(self, sets: Sequence[Collection[int]]) -> None:
        """See ``Questions.expect``."""
        candidates = [self.candidate(keep) for keep in sets[: self.questions.prober.jobs]]
        self.questions.expect([one for one in candidates if one is not None])
