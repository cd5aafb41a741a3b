"""The interestingness test: when a candidate counts as failing in the wanted way."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..probes.failure_signature import Match, matches
from ..probes.verdict import Signature, Verdict

WRONG_PASSES = 0.01
"""Share of the candidates with a failure that does not come every time that may be taken for good ones."""


@dataclass(frozen=True)
class Interestingness:
    """A failure, and how to tell whether a candidate has it.

    Attributes:
        wanted: the failure; None for any.
        match: what of it has to agree.
        runs: runs without it after which a candidate counts as good; 1 for a failure that comes every time.
    """

    wanted: Signature | None
    match: Match = "signature"
    runs: int = 1

    def accepts(self, verdict: Verdict) -> bool:
        """Whether one run failed in the wanted way."""
        seen = verdict.signature
        if seen is None or seen.outcome == "invalid":
            return False
        return self.wanted is None or matches(self.wanted, seen, self.match)

    def holds(self, verdicts: Sequence[Verdict]) -> bool:
        """Whether a candidate with these runs fails in the wanted way."""
        return any(map(self.accepts, verdicts))

    def is_decided(self, verdicts: Sequence[Verdict]) -> bool:
        """Whether these runs suffice: the failure was seen, or was not seen often enough."""
        return len(verdicts) >= self.runs or self.holds(verdicts)


def runs_for_rate(failed: int, runs: int) -> int:
    """How many runs without the failure make a good candidate, for one that failed ``failed`` times in ``runs``.

    One run if every run failed. Otherwise so many that a candidate with the failure passes all of them with a
    probability of ``WRONG_PASSES``: log(WRONG_PASSES) / log(1 - failed / runs), a sequential test that ends with the
    first failure.
    """
    if failed >= runs:
        return 1
    return math.ceil(math.log(WRONG_PASSES) / math.log(1 - failed / runs))
