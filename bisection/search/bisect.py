"""From a program that the compiler fails on to the smallest one."""

from __future__ import annotations

from ...compiler.targets.command import CompilerCommand
from ...errors import BudgetError
from ..probes.probe_runner import BudgetSpentError, ProbeRunner
from ..subjects.subject import Subject
from .interestingness import Interestingness
from .minimal_subset import lower_bound
from .options import SearchOptions
from .oracle import Oracle
from .progress import OnProgress
from .reducer import Reducer
from .reproduce import reproduce
from .result import BisectResult, Cost, Evidence, Failure, Reduction


def bisect(
    title: str,
    subject: Subject,
    compiler: CompilerCommand,
    runner: ProbeRunner,
    options: SearchOptions,
    on_progress: OnProgress = lambda progress: None,
) -> BisectResult:
    """The smallest program with the failure of ``subject``; the best so far if the budget or Ctrl-C ends the search.

    Args:
        title: what is reduced, for people.
        compiler: what ``runner`` runs, for the result.
        on_progress: called before and after each candidate.

    Raises:
        BisectError: the failure does not come.
        BudgetError: the budget ended before it did.
    """
    whole = subject.candidate(range(len(subject.items)))
    oracle = Oracle(runner, Interestingness(None, options.match), on_progress, whole.size)
    oracle.begin("whole program", whole.size)
    try:
        oracle.test, first = reproduce(runner, whole, options.match, options.repeats)
    except BudgetSpentError:
        raise BudgetError("the budget is spent and the whole program was not seen to fail yet: allow more") from None
    assert oracle.test.wanted is not None
    # A compiler that reads graphs cannot be asked about modules.
    found = Reducer(subject, oracle, options, whole, reads_modules=compiler.format != "python")
    complete = found.run()
    operations = [index for index, item in enumerate(subject.items) if not item.is_result]
    bound = lower_bound(len(operations), len({*operations}.intersection(found.kept)))
    return BisectResult(
        subject=title,
        compiler=compiler,
        failure=Failure(oracle.test.wanted, oracle.test.runs, first, found.last),
        reduction=Reduction(subject.items, found.kept, found.minimal, found.smallest_module, found.simplifications),
        evidence=Evidence(
            removals=[one.text for one in found.removals],
            is_minimal=found.is_minimal,
            good=found.good,
            others=found.others,
            survey=found.survey,
        ),
        cost=Cost(found.stages, oracle.history, runner.probes, runner.known, bound, runner.seconds),
        complete=complete,
        interrupted=found.interrupted,
    )
