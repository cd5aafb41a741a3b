"""What a bisection found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...compiler.targets.command import CompilerCommand
from ..probes.probe_runner import ProbeRunner
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
class Failure:
    """What the compiler does.

    Attributes:
        signature: of the failure.
        runs: without the failure, after which a candidate counted as good.
        first, last: how often the whole program and the minimal one failed.
    """

    signature: Signature
    runs: int
    first: Reproduction
    last: Reproduction


@dataclass(frozen=True)
class Reduction:
    """What the program was reduced to.

    Attributes:
        items: of the whole program; ``kept``: indices of those in the minimal one.
        minimal: the smallest failing candidate. It may be simpler than the kept items: smaller shapes, fewer inputs.
        smallest_module: the same, reduced further as a module; ``minimal`` itself if nothing came of that.
        simplifications: what was made simpler in it, in order, one line each.
    """

    items: Sequence[Item]
    kept: Sequence[int]
    minimal: Candidate
    smallest_module: Candidate
    simplifications: Sequence[str]

    @property
    def kept_items(self) -> list[Item]:
        """The items of the whole program that are in the minimal one."""
        return [self.items[index] for index in self.kept]

    @property
    def operations(self) -> int:
        """Of the whole program."""
        return sum(not item.is_result for item in self.items)


@dataclass(frozen=True)
class Evidence:
    """What else is known of the failure and of how small its program is.

    Attributes:
        removals: for each kept operation, what came of the minimal program without it, one line each.
        is_minimal: whether removing any one operation was seen to lose the failure.
        good: the largest candidate without the failure that the minimal one was told from; None if none was met.
        others: failures that were met and not looked for.
        survey: what came of each operation of the failing regions alone; empty if that was not asked.
        introduced_by: the pass that introduces the failure, for people; empty if that was not asked.
    """

    removals: Sequence[str]
    is_minimal: bool
    good: Candidate | None
    others: Sequence[OtherFailure]
    survey: Sequence[SurveyRow]
    introduced_by: str = ""


@dataclass(frozen=True)
class Miscompilation:
    """Of a program that computes something else, what counts as wrong and where that begins.

    Attributes:
        criterion: when a result counts as wrong; empty for other failures.
        first_wrong: indices of the first operations whose results are wrong on the right inputs, see
            ``first_difference``; empty if there are none, or that was not asked to the end.
    """

    criterion: str = ""
    first_wrong: Sequence[int] = ()


@dataclass(frozen=True)
class Cost:
    """How the result was come by.

    Attributes:
        stages, history: in their order.
        probes: runs of the compiler; ``known``: answers from the memo.
        bound: probes that no method can do without on average: log2 of the number of subsets of that size.
        seconds: of the whole search.
    """

    stages: Sequence[Stage]
    history: Sequence[HistoryPoint]
    probes: int
    known: int
    bound: float
    seconds: float

    def up_to_now(self, runner: ProbeRunner) -> Cost:
        """With what ``runner`` did since."""
        return replace(self, probes=runner.probes, known=runner.known, seconds=runner.seconds)


@dataclass(frozen=True)
class BisectResult:
    """The smallest failing program, and how it was come by.

    Attributes:
        subject: what was reduced, for people, such as ``nano, batch 4, trn2``.
        compiler: that fails.
        complete: False if the budget or Ctrl-C ended the search early; ``interrupted``: it was Ctrl-C.
        miscompilation: of programs that compute something else.
    """

    subject: str
    compiler: CompilerCommand
    failure: Failure
    reduction: Reduction
    evidence: Evidence
    cost: Cost
    complete: bool
    interrupted: bool = False
    miscompilation: Miscompilation = Miscompilation()
