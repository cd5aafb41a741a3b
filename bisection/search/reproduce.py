"""Does the failure come at all, how often, and does the set-up work: what is asked before anything is cut."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import BisectError
from ..probes.probe import IDENTITY
from ..probes.prober import Prober
from ..probes.signature import Match
from ..probes.verdict import Signature, Verdict
from ..subjects.subject import Candidate
from .criterion import Criterion, runs_for_rate
from .result import Reproduction

MOST_RUNS = 20
"""After so many runs of the whole program its rate of failures is taken as known."""

_ENOUGH_FAILURES = 4


def reproduce(
    prober: Prober, whole: Candidate, wanted: Signature | None, match: Match, repeats: int
) -> tuple[Criterion, Reproduction]:
    """Run the whole program ``repeats`` times, and more often if it fails in some of the runs only.

    Args:
        wanted: the failure to look for; None for the first one that comes.

    Returns:
        What counts as that failure from here on, and how often it came.

    Raises:
        BisectError: it never came, or the compiler fails in the same way on a program that does nothing.
        BudgetSpentError: the budget does not suffice for that.
    """
    verdicts = prober.ask(whole, lambda runs: len(runs) >= repeats)
    sought = Criterion(wanted or _first_failure(verdicts), match)
    failed = sum(map(sought.accepts, verdicts))
    if 0 < failed < len(verdicts):
        verdicts = prober.ask(whole, lambda runs: _is_rate_known(runs, sought))
        failed = sum(map(sought.accepts, verdicts))
    if not failed:
        raise BisectError(_never(verdicts, wanted))
    _check_setup(prober, sought)
    return Criterion(sought.wanted, match, runs_for_rate(failed, len(verdicts))), Reproduction(failed, len(verdicts))


def _check_setup(prober: Prober, sought: Criterion) -> None:
    (verdict, *_) = prober.ask(IDENTITY, lambda runs: len(runs) >= 1)
    if sought.accepts(verdict):
        raise BisectError(
            f"a program that returns its input fails in the same way ({verdict.signature}): the compiler or its "
            "command is at fault, not the graph. Run the command by hand"
        )


def _first_failure(verdicts: Sequence[Verdict]) -> Signature | None:
    seen = [one.signature for one in verdicts if one.signature is not None and one.signature.outcome != "invalid"]
    return seen[0] if seen else None


def _is_rate_known(verdicts: Sequence[Verdict], sought: Criterion) -> bool:
    return sum(map(sought.accepts, verdicts)) >= _ENOUGH_FAILURES or len(verdicts) >= MOST_RUNS


def _never(verdicts: Sequence[Verdict], wanted: Signature | None) -> str:
    seen = sorted({"it compiled" if one.signature is None else str(one.signature) for one in verdicts})
    looked_for = f" ({wanted})" if wanted else ""
    other = "; if one of these is what you look for, give --match any" if wanted and seen != ["it compiled"] else ""
    return (
        f"the failure{looked_for} came in 0 of {len(verdicts)} runs of the whole program, which ended so: "
        f"{'; '.join(seen)}{other}. Check the version and the flags of the compiler, or ask for more --repeats"
    )
