"""Verdicts on candidates: from the memo, or by running the compiler, several at once if wished.

The caller names the candidates that it may ask for next, and idle threads look at them. Answers do not depend on that:
each is a fact about one candidate.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from types import TracebackType

from ..subjects.subject import Candidate
from .memo import Memo
from .verdict import Signature, Verdict

Probe = Callable[[Candidate, threading.Event], Verdict]
"""Gives a candidate to the compiler, from any thread; raises CompileCancelledError once the event is set."""

IsEnough = Callable[[Sequence[Verdict]], bool]
"""Whether the verdicts of the runs of one candidate answer what is asked."""

_MOST_INTERRUPTIONS = 3


class BudgetSpentError(Exception):
    """The time or the probes that the search may take are used up."""


@dataclass(frozen=True)
class Budget:
    """What a search may take; None for no limit."""

    seconds: float | None = None
    probes: int | None = None


@dataclass(frozen=True)
class _Running:
    verdicts: Future[list[Verdict]] = field(default_factory=Future)
    cancel: threading.Event = field(default_factory=threading.Event)


class ProbeRunner:
    """Runs probes and keeps their verdicts. One thread asks; close it when done.

    Attributes:
        probes: runs of the compiler that were started.
        known: answers from the memo.
        jobs: probes that run at once.

    Args:
        probe: runs the compiler once.
        memo: what is known, and where verdicts are kept.
        jobs: probes that run at once.
        budget: after which BudgetSpentError is raised instead of starting another probe.
    """

    def __init__(self, probe: Probe, memo: Memo, jobs: int = 1, budget: Budget | None = None):
        self.probes = 0
        self.known = 0
        self.budget = budget or Budget()
        self._probe = probe
        self._memo = memo
        self.jobs = jobs
        self._pool = ThreadPoolExecutor(jobs, thread_name_prefix="probe")
        self._running: dict[str, _Running] = {}
        self._counter = threading.Lock()
        self._begun = time.monotonic()

    def __enter__(self) -> ProbeRunner:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None):
        self.close()

    @property
    def seconds(self) -> float:
        """Since it was made."""
        return time.monotonic() - self._begun

    def verdicts(self, candidate: Candidate, is_enough: IsEnough) -> list[Verdict]:
        """Verdicts on a candidate, as many as are enough.

        Raises:
            BudgetSpentError: a probe would be needed, and the budget is spent.
        """
        known = self._memo.verdicts(candidate.digest)
        if is_enough(known):
            self.known += 1
            return known
        if candidate.digest not in self._running and len(self._running) >= self.jobs:
            self._drop(keep=())
        verdicts = self._wait(self._start(candidate, is_enough).verdicts)
        del self._running[candidate.digest]
        return verdicts if is_enough(verdicts) else self.verdicts(candidate, is_enough)

    def prefetch(self, candidates: Sequence[Candidate], is_enough: IsEnough) -> None:
        """Let idle threads look at the first of these that are not known, and stop looking at any others."""
        if self.jobs == 1:
            return
        unknown = {one.digest: one for one in candidates if not is_enough(self._memo.verdicts(one.digest))}
        chosen = list(unknown.values())[: self.jobs]
        self._drop(keep=[one.digest for one in chosen])
        for candidate in chosen:
            self._start(candidate, is_enough)

    def close(self) -> None:
        """End every probe that still runs; none of them leaves a verdict."""
        self._drop(keep=())
        self._pool.shutdown(wait=True)

    def _wait(self, verdicts: Future[list[Verdict]]) -> list[Verdict]:
        limit = self.budget.seconds
        try:
            return verdicts.result(None if limit is None else max(limit - self.seconds, 0.0))
        except TimeoutError:
            # One of the probe itself would be a verdict, so this is the budget's.
            self._drop(keep=())
            raise BudgetSpentError from None

    def _start(self, candidate: Candidate, is_enough: IsEnough) -> _Running:
        if candidate.digest not in self._running:
            # Known before it begins, so that whatever interrupts this thread leaves none that cannot be ended.
            running = self._running[candidate.digest] = _Running()
            self._pool.submit(self._fulfil, running, candidate, is_enough)
        return self._running[candidate.digest]

    def _fulfil(self, running: _Running, candidate: Candidate, is_enough: IsEnough) -> None:
        if running.verdicts.set_running_or_notify_cancel():
            try:
                running.verdicts.set_result(self._run(candidate, is_enough, running.cancel))
            except BaseException as error:
                running.verdicts.set_exception(error)

    def _run(self, candidate: Candidate, is_enough: IsEnough, cancel: threading.Event) -> list[Verdict]:
        digest = candidate.digest
        if not self._memo.verdicts(digest) and self._memo.interrupted(digest) >= _MOST_INTERRUPTIONS:
            self._memo.end(digest, _interrupted(self._memo.interrupted(digest)))
        while not is_enough(self._memo.verdicts(digest)):
            self._count_probe()
            self._memo.start(digest)
            try:
                verdict = self._probe(candidate, cancel)
            except BaseException:
                self._memo.cancel(digest)
                raise
            self._memo.end(digest, verdict)
        return self._memo.verdicts(digest)

    def _count_probe(self) -> None:
        with self._counter:
            limits = self.budget
            if limits.probes is not None and self.probes >= limits.probes:
                raise BudgetSpentError
            if limits.seconds is not None and self.seconds >= limits.seconds:
                raise BudgetSpentError
            self.probes += 1

    def _drop(self, keep: Collection[str]) -> None:
        """End probes that nobody waits for any more."""
        dropped = [self._running.pop(digest) for digest in [*self._running] if digest not in keep]
        for one in dropped:
            one.cancel.set()
            one.verdicts.cancel()
        for one in dropped:
            if not one.verdicts.cancelled():
                one.verdicts.exception()


def _interrupted(times: int) -> Verdict:
    message = "this process ended whenever it was probed"
    return Verdict(Signature("invalid", "", message), 0.0, f"{times} probes of it were started and never ended")
