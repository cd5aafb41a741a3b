"""What a bisection found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..probes.verdict import Signature
from ..subjects.subject import Candidate, Item


@dataclass(frozen=True)
class HistoryPoint:
    """One question that was asked on the way.

    Attributes:
        stage: of the reduction, such as ``regions`` or ``operations``.
        size: operations of the candidate.
        failed: whether it failed in the wanted way.
        probes: runs of the compiler up to here; the same as before for an answer that was known.
        best: operations of the smallest failing candidate up to here.
    """

    stage: str
    size: int
    failed: bool
    probes: int
    best: int


@dataclass(frozen=True)
class Stage:
    """One stage: operations before and after it, and the compiler runs that it took."""

    name: str
    before: int
    after: int
    probes: int
    seconds: float


@dataclass(frozen=True)
class OtherFailure:
    """A failure that was not looked for, and the smallest candidate that was met with it."""

    signature: Signature
    candidate: Candidate
    times: int


@dataclass(frozen=True)
class Reproduction:
    """How often a candidate failed in the wanted way."""

    failed: int
    runs: int

    def __str__(self) -> str:
        return f"{self.failed} of {self.runs}"


@dataclass(frozen=True)
class SurveyRow:
    """Operations that are one program when they stand alone.

    Attributes:
        items: indices of the operations.
        example: the first of them.
        text: what came of the program, for people.
        fails: whether it fails in the wanted way.
    """

    items: tuple[int, ...]
    example: Item
    text: str
    fails: bool


@dataclass(frozen=True)
class BisectResult:
    """The smallest failing graph, and how it was come by.

    Attributes:
        subject: what was reduced, for people, such as ``nano, batch 4, trn2``.
        compiler: its name; ``command``: what it was started with; ``version``: version and flags.
        signature: of the failure.
        runs: without the failure, after which a candidate counted as good.
        first, last: how often the whole program and the minimal one failed.
        items: of the whole program; ``kept``: indices of those in the minimal one.
        minimal: the smallest failing candidate. It may be simpler than the kept items: smaller shapes, fewer inputs.
        smallest_module: the same, reduced further as a module; ``minimal`` itself if nothing came of that.
        simplifications: what was made simpler in it, in order, one line each.
        good: the largest candidate without the failure that the minimal one was told from; None if none was met.
        removals: for each kept operation, what came of the minimal program without it, one line each.
        is_minimal: whether removing any one operation was seen to lose the failure.
        complete: False if the budget or Ctrl-C ended the search early; ``interrupted``: it was Ctrl-C.
        others: failures that were met and not looked for.
        survey: what came of each operation of the failing regions alone; empty if that was not asked.
        introduced_by: the pass that introduces the failure, for people; empty if that was not asked.
        probes: runs of the compiler; ``known``: questions answered from the log of verdicts.
        bound: probes that no method can do without on average: log2 of the number of subsets of that size.
        criterion: of programs that compute something else, when a result counts as wrong; empty for other failures.
        first_wrong: of these, indices of the first operations whose results are wrong on the right inputs, see
            ``first_difference``; empty if there are none, or that was not asked.
    """

    subject: str
    compiler: str
    command: Sequence[str]
    version: str
    signature: Signature
    runs: int
    first: Reproduction
    last: Reproduction
    items: Sequence[Item]
    kept: Sequence[int]
    minimal: Candidate
    smallest_module: Candidate
    simplifications: Sequence[str]
    good: Candidate | None
    removals: Sequence[str]
    is_minimal: bool
    complete: bool
    others: Sequence[OtherFailure]
    survey: Sequence[SurveyRow]
    introduced_by: str
    stages: Sequence[Stage]
    history: Sequence[HistoryPoint]
    probes: int
    known: int
    bound: float
    seconds: float
    interrupted: bool = False
    criterion: str = ""
    first_wrong: Sequence[int] = ()
