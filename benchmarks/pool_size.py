"""The time of one compiled step against the size of the KV pools: a step that copied a cache would grow with it."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..compiler.api import compile_decode
from ..model.accuracy.golden_pool import load_golden_prompts
from ..model.checkpoint.loader import Checkpoint
from ..model.engram_lookup import EngramLookup
from ..model.kv_cache import CacheGeometry
from ..model.numerics import Numerics
from ..model.requests import RequestPool
from ..model.weights import load_model
from ..reporting import Say

BATCH_SIZE = 2
MAX_CONTEXT = 1024
PROMPT = (5, 6, 7, 8)


@dataclass(frozen=True)
class PoolTime:
    """Pools ``factor`` times the smallest: their bytes, the median step, its paired ratio to the smallest's."""

    factor: int
    pool_bytes: int
    ms_per_step: float
    ratio: float


def time_pool_sizes(directory: Path, factors: Sequence[int], rounds: int, say: Say) -> list[PoolTime]:
    """Time the same step with pools of several sizes, interleaved; the first factor is the one compared with."""
    checkpoint, _ = load_golden_prompts(directory, "tiny", say)
    steps = []
    sizes = []
    for factor in factors:
        say(f"compiling with pools {factor} times as large")
        step, size = _step(checkpoint, factor)
        steps.append(step)
        sizes.append(size)
    times: list[list[float]] = [[] for _ in steps]
    for _ in range(rounds):
        for step, taken in zip(steps, times, strict=True):
            start = time.perf_counter()
            step()
            taken.append((time.perf_counter() - start) * 1e3)
    return [
        PoolTime(
            factor,
            size,
            statistics.median(taken),
            statistics.median(one / first for one, first in zip(taken, times[0], strict=True)),
        )
        for factor, size, taken in zip(factors, sizes, times, strict=True)
    ]


def _step(checkpoint: Checkpoint, factor: int) -> tuple[Callable[[], object], int]:
    smallest = CacheGeometry.for_requests(MAX_CONTEXT, BATCH_SIZE)
    geometry = CacheGeometry(MAX_CONTEXT, BATCH_SIZE * factor, smallest.num_blocks * factor)
    pool = RequestPool(load_model(checkpoint, geometry), EngramLookup(checkpoint, Numerics()))
    requests = [pool.add(PROMPT)[0] for _ in range(BATCH_SIZE)]
    inputs = pool.step_inputs(requests, [9] * BATCH_SIZE)
    runner = compile_decode(pool.model, [BATCH_SIZE])
    runner(**inputs)
    size = sum(root.numel() * root.element_size() for root in pool.model.cache.buffers())
    return (lambda: runner(**inputs)), size
