"""What came of giving a candidate to the compiler."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Outcome = Literal["ok", "error", "signal", "timeout", "out of memory", "too much output", "different", "invalid"]
"""``different``: it compiled, and computes something else. ``invalid``: the candidate itself is at fault."""


@dataclass(frozen=True)
class Signature:
    """What stays the same of a failure when graph, machine and run change.

    Attributes:
        outcome: how the run ended.
        code: of the compiler, such as ``EVRF029``; the name of a signal; or empty.
        message: without numbers, paths and names; empty where it says nothing, as for timeouts.
    """

    outcome: Outcome
    code: str = ""
    message: str = ""

    def __str__(self) -> str:
        return ": ".join(part for part in (self.outcome, self.code, self.message) if part)


@dataclass(frozen=True)
class Verdict:
    """The end of one probe.

    Attributes:
        signature: of the failure; None if the candidate compiled, and computed what it should if that was asked.
        seconds: that the probe took.
        log: what the compiler said, shortened.
    """

    signature: Signature | None
    seconds: float
    log: str = ""
