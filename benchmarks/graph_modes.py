"""One decode step compiled as regions and as a whole, interleaved in one process."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from ..compiler.api import compile_decode
from ..model.accuracy.teacher_forced import golden_inputs
from ..model.decode import DecodeModel
from ..reporting import Say
from .golden_requests import prefilled_requests

MODES = ("regions", "whole")


@dataclass(frozen=True)
class ModeTimes:
    """One batch size. Times are medians in milliseconds; the ratio is the median of paired rounds.

    ``regions`` and ``programs`` count those of mode "regions".
    """

    batch_size: int
    regions: int
    programs: int
    regions_ms: float
    whole_ms: float
    regions_to_whole: float


def time_graph_modes(directory: Path, batch_sizes: Sequence[int], rounds: int, say: Say) -> list[ModeTimes]:
    """Time the golden prompts' next step in both modes; the checkpoint and golden file are made if absent."""
    pool, forced = prefilled_requests(directory, max(batch_sizes), say)
    results = []
    for batch_size in batch_sizes:
        inputs = golden_inputs(pool, forced[:batch_size])
        say(f"batch {batch_size}: compiling")
        results.append(_time_one(pool.model, inputs, batch_size, rounds))
    return results


def _time_one(model: DecodeModel, inputs: dict[str, Tensor], batch_size: int, rounds: int) -> ModeTimes:
    caches = model.cache.snapshot()
    runners = {mode: compile_decode(model, [batch_size], mode=mode) for mode in MODES}
    for runner in runners.values():
        runner(**inputs)
    times = _interleave(runners, inputs, rounds)
    model.cache.restore(caches)
    (report,) = runners["regions"].reports
    pairs = zip(times["regions"], times["whole"], strict=True)
    return ModeTimes(
        batch_size=batch_size,
        regions=report.regions,
        programs=report.programs,
        regions_ms=statistics.median(times["regions"]),
        whole_ms=statistics.median(times["whole"]),
        regions_to_whole=statistics.median(regions / whole for regions, whole in pairs),
    )


def _interleave(
    steps: dict[str, Callable[..., Tensor]], inputs: dict[str, Tensor], rounds: int
) -> dict[str, list[float]]:
    """Milliseconds of every step in every round, each mode first in every other one."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for number in range(rounds):
        for name in sorted(steps, reverse=number % 2 == 1):
            start = time.perf_counter()
            steps[name](**inputs)
            times[name].append((time.perf_counter() - start) * 1e3)
    return times
