"""Steps whose programs are being compiled while the next batch size is captured."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from torch import nn

from ...reporting import Say
from ...runtime.plan import GraphMode, ReplayPlan
from ...runtime.stats import CompileReport
from ..regions.cut import Region
from .decode_steps import DecodeStep, decode_steps
from .pipeline import NamedTarget, count_calls
from .step_plan import plan_step

Started = TypeVar("Started")
"""What stands for the program of a region from when it is started until it is compiled."""


class NamedProgram(Protocol):
    """What a step's plan and report say of a program."""

    @property
    def name(self) -> str:
        """What plans call it."""
        ...

    @property
    def seconds(self) -> float:
        """Seconds that it took to compile it or to find it."""
        ...

    @property
    def is_stored(self) -> bool:
        """Whether it was found in the store."""
        ...


@dataclass(frozen=True)
class StartedStep(Generic[Started]):
    """A step with one entry of ``programs`` for each region; ``lowering_s``: seconds for slicing and starting."""

    step: DecodeStep
    programs: list[Started]
    lowering_s: float

    def plan(self, programs: Sequence[NamedProgram]) -> ReplayPlan:
        """How the step is replayed with ``programs``, one for each region."""
        names = [program.name for program in programs]
        return plan_step(self.step.size, self.step.graph, self.step.passed.context, self.step.cut, names)

    def report(self, programs: Sequence[NamedProgram], known: Collection[str]) -> CompileReport:
        """How the step was compiled; ``known`` are the names of programs that earlier steps had compiled."""
        named = {program.name: program for program in programs}
        passed = self.step.passed
        return CompileReport(
            batch_size=self.step.size,
            mode=self.step.mode,
            nodes=passed.nodes,
            regions=len(programs),
            programs=len(named),
            stored=sum(program.is_stored for program in named.values()),
            capture_s=self.step.captured.seconds,
            passes_s=passed.passes_s,
            lowering_s=self.lowering_s,
            compile_s=sum(program.seconds for name, program in named.items() if name not in known),
            passes=passed.passes,
            region_nodes=tuple(count_calls(region.module) for region in self.step.cut.regions),
            program_s={name: program.seconds for name, program in named.items()},
        )


def start_steps(
    model: nn.Module,
    sizes: Sequence[int],
    target: NamedTarget,
    mode: GraphMode,
    start: Callable[[Region, int], Started],
    say: Say,
) -> list[StartedStep[Started]]:
    """``decode_steps``, largest first, with ``start`` called for each region and its batch size as soon as it is known.

    Raises:
        CaptureError, ConfigError, GraphError: as ``decode_steps``.
    """
    started: dict[int, StartedStep[Started]] = {}

    def take(step: DecodeStep) -> None:
        begun = time.perf_counter()
        programs = [start(region, step.size) for region in step.cut.regions]
        started[step.size] = StartedStep(step, programs, step.slicing_s + time.perf_counter() - begun)

    return [started[step.size] for step in decode_steps(model, sizes, target, mode, take=take, say=say)]
