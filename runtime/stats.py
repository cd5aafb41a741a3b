"""Counts of what a decode runner did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..passes.observer import PassRecord


@dataclass
class RunnerStatistics:
    """Counts since the runner was made.

    Attributes:
        replays: batch size of the program -> number of replays.
        live_rows: rows that belonged to a request.
        padded_rows: rows that did not.
        fallbacks: reason -> steps that ran in eager PyTorch instead.
    """

    replays: Counter[int] = field(default_factory=Counter)
    live_rows: int = 0
    padded_rows: int = 0
    fallbacks: Counter[str] = field(default_factory=Counter)

    def count_replay(self, size: int, live: int) -> None:
        """One replay of the program for ``size`` rows, ``live`` of them in use."""
        self.replays[size] += 1
        self.live_rows += live
        self.padded_rows += size - live

    def to_json(self) -> dict[str, Any]:
        """The counts as a JSON object with stable keys."""
        return {
            "replays": {str(size): count for size, count in sorted(self.replays.items())},
            "live_rows": self.live_rows,
            "padded_rows": self.padded_rows,
            "fallbacks": dict(sorted(self.fallbacks.items())),
        }


@dataclass(frozen=True)
class CompileReport:
    """How one batch size was compiled.

    Attributes:
        mode: "whole" or "regions".
        nodes: calls in the graph that was cut and lowered.
        regions: program calls of a step.
        programs: different programs among them.
        capture_s: seconds; likewise the next two, for the passes, and for cutting and lowering.
        compile_s: seconds in the target's compiler, or for finding what is stored, added up over the programs that no
            larger batch size had.
        passes: every run of a pass, in order.
        region_nodes: calls in the graph of each region, in order.
        program_s: digest of each program -> the seconds of ``compile_s``, whichever batch size it was made for.
        stored: how many of ``programs`` were found in the store.
    """

    batch_size: int
    mode: str
    nodes: int
    regions: int
    programs: int
    capture_s: float
    passes_s: float
    lowering_s: float
    compile_s: float
    passes: tuple[PassRecord, ...]
    region_nodes: tuple[int, ...]
    program_s: Mapping[str, float]
    stored: int = 0
