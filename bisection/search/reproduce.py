"""Does the failure come at all, how often, and does the set-up work: what is asked before anything is cut."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import BisectError
from ..probes.failure_signature import Match
from ..probes.probe import IDENTITY
from ..probes.probe_runner import ProbeRunner
from ..probes.verdict import Signature, Verdict
from ..subjects.subject import Candidate
from .interestingness import Interestingness, runs_for_rate
from .result import Reproduction

MOST_RUNS = 20
"""After so many runs of the whole program its rate of failures is taken as known."""

_ENOUGH_FAILURES = 4


def reproduce(
    runner: ProbeRunner, whole: Candidate, match: Match, repeats: int
) -> tuple[Interestingness, Reproduction]:
    """Run the whole program ``repeats`` times, and more often if it fails in some of the runs only.

    Returns:
        What counts as the failure that came first from here on, and how often it came.

    Raises:
        BisectError: none came, or the compiler fails in the same way on a program that does nothing.
        BudgetSpentError: the budget does not suffice for that.
    """
    verdicts = runner.verdicts(whole, lambda runs: len(runs) >= repeats)
    wanted = _first_failure(verdicts)
    if wanted is None:
        raise BisectError(_never(verdicts))
    test = Interestingness(wanted, match)
    failed = sum(map(test.accepts, verdicts))
    if failed < len(verdicts):
        verdicts = runner.verdicts(whole, lambda runs: _is_rate_known(runs, test))
        failed = sum(map(test.accepts, verdicts))
    _check_setup(runner, test)
    return Interestingness(wanted, match, runs_for_rate(failed, len(verdicts))), Reproduction(failed, len(verdicts))


def _check_setup(runner: ProbeRunner, test: Interestingness) -> None:
    (verdict, *_) = runner.verdicts(IDENTITY, bool)
    if test.accepts(verdict):
        raise BisectError(
            f"a program that returns its input fails in the same way ({verdict.signature}): the compiler or its "
            "command is at fault, not the graph. Run the command by hand"
        )


def _first_failure(verdicts: Sequence[Verdict]) -> Signature | None:
    seen = (one.signature for one in verdicts)
    return next((one for one in seen if one is not None and one.outcome != "invalid"), None)


def _is_rate_known(verdicts: Sequence[Verdict], test: Interestingness) -> bool:
    return sum(map(test.accepts, verdicts)) >= _ENOUGH_FAILURES or len(verdicts) >= MOST_RUNS


def _never(verdicts: Sequence[Verdict]) -> str:
    seen = sorted({"it compiled" if one.signature is None else str(one.signature) for one in verdicts})
    return (
        f"the failure came in 0 of {len(verdicts)} runs of the whole program, which ended so: "
        f"{'; '.join(seen)}. Check the version and the flags of the compiler, or ask for more --repeats"
    )
