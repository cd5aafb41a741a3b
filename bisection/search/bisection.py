"""From a program that the compiler fails on to the smallest one."""

from __future__ import annotations

from ...compiler.targets.command import CompilerCommand
from ...errors import BudgetError
from ..probes.prober import BudgetSpentError, Prober
from ..subjects.subject import Subject
from .criterion import Criterion
from .options import BisectOptions
from .questions import Questions, Watch
from .reproduce import reproduce
from .result import BisectResult
from .search import lower_bound
from .stages import Search


def bisect(
    title: str,
    subject: Subject,
    compiler: CompilerCommand,
    prober: Prober,
    options: BisectOptions,
    watch: Watch = lambda progress: None,
) -> BisectResult:
    """The smallest program with the failure of ``subject``; the best so far if the budget or Ctrl-C ends the search.

    Args:
        title: what is reduced, for people.
        compiler: what ``prober`` runs, for the result.
        watch: called before and after each question.

    Raises:
        BisectError: the failure does not come.
        BudgetError: the budget ended before it did.
    """
    whole = subject.candidate(range(len(subject.items)))
    questions = Questions(prober, Criterion(options.wanted, options.match), watch, whole.size)
    questions.begin("whole program", whole.size)
    try:
        criterion, first = reproduce(prober, whole, options.wanted, options.match, options.repeats)
    except BudgetSpentError:
        raise BudgetError("the budget is spent and the whole program was not seen to fail yet: allow more") from None
    questions.criterion = criterion
    # A compiler that reads graphs cannot be asked about modules.
    search = Search(subject, questions, options, whole, reads_modules=compiler.format != "python")
    complete = search.run()
    assert criterion.wanted is not None
    operations = sum(not item.is_result for item in subject.items)
    return BisectResult(
        subject=title,
        compiler=compiler.name,
        command=compiler.command,
        version=compiler.fingerprint,
        signature=criterion.wanted,
        runs=criterion.runs,
        first=first,
        last=search.last,
        items=subject.items,
        kept=search.kept,
        minimal=search.minimal,
        smallest_module=search.smallest_module,
        simplifications=search.simplifications,
        good=search.good,
        removals=[one.text for one in search.removals],
        is_minimal=search.is_minimal,
        complete=complete,
        others=search.others,
        survey=search.survey,
        introduced_by="",
        stages=search.stages,
        history=search.questions.history,
        probes=prober.probes,
        known=prober.known,
        bound=lower_bound(operations, sum(not subject.items[index].is_result for index in search.kept)),
        seconds=prober.seconds,
        interrupted=search.interrupted,
    )
