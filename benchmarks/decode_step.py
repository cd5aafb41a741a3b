"""One decode step in eager PyTorch, Inductor and our compiled program: latency, error and cold compile, interleaved."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..compiler.api import compile_decode
from ..model.accuracy.metrics import relative_error
from ..model.accuracy.teacher_forced import golden_inputs
from ..model.decode import DecodeModel
from ..model.kernels.library import NAMESPACE
from ..reporting import Say
from .golden_requests import prefilled_requests


@dataclass(frozen=True)
class StepTimes:
    """One batch size. Times are medians in milliseconds; ratios are medians of paired rounds, below 1 is faster.

    Errors are relative RMS distances of the logits from eager's, from the same caches. Cold seconds run from the
    model to the first result, capture included.
    """

    batch_size: int
    eager_ms: float
    ours_ms: float
    ours_to_eager: float
    ours_error: float
    ours_cold_s: float
    inductor_ms: float | None = None
    ours_to_inductor: float | None = None
    inductor_error: float | None = None
    inductor_cold_s: float | None = None


def time_decode_steps(
    directory: Path, batch_sizes: Sequence[int], rounds: int, with_inductor: bool, say: Say, target: str | None = None
) -> list[StepTimes]:
    """Time every batch size on the golden prompts' next step; the checkpoint and golden file are made if absent.

    "Ours" is what ``compile_decode`` makes for ``target``, and all compute in its fp8 range.
    """
    pool, forced = prefilled_requests(directory, max(batch_sizes), say, target)
    results = []
    for batch_size in batch_sizes:
        inputs = golden_inputs(pool, forced[:batch_size])
        results.append(_time_one(pool.model, inputs, batch_size, rounds, with_inductor, target, say))
    return results


def _time_one(
    model: DecodeModel,
    inputs: dict[str, Tensor],
    batch_size: int,
    rounds: int,
    with_inductor: bool,
    target: str | None,
    say: Say,
) -> StepTimes:
    caches = model.cache.snapshot()
    steps: dict[str, Callable[..., Tensor]] = {"eager": model}
    cold: dict[str, float] = {}
    say(f"batch {batch_size}: compiling ours")
    start = time.perf_counter()
    runner = steps["ours"] = compile_decode(model, [batch_size], target)
    runner(**inputs)
    cold["ours"] = time.perf_counter() - start
    if with_inductor:
        say(f"batch {batch_size}: compiling with Inductor, which takes minutes")
        torch._dynamo.reset()
        start = time.perf_counter()
        steps["inductor"] = torch.compile(model, backend=_inductor_with_kernels, fullgraph=True, dynamic=False)
        with torch.no_grad():
            steps["inductor"](**inputs)
        cold["inductor"] = time.perf_counter() - start
    logits = {}
    for name, step in steps.items():
        model.cache.restore(caches)
        runner.write_caches()
        with torch.no_grad():
            logits[name] = step(**inputs).clone()
    times = _interleave(steps, inputs, rounds, runner.write_caches)
    model.cache.restore(caches)
    medians = {name: statistics.median(values) for name, values in times.items()}
    return StepTimes(
        batch_size=batch_size,
        eager_ms=medians["eager"],
        ours_ms=medians["ours"],
        ours_to_eager=_paired_ratio(times["ours"], times["eager"]),
        ours_error=relative_error(logits["ours"], logits["eager"]),
        ours_cold_s=cold["ours"],
        inductor_ms=medians.get("inductor"),
        ours_to_inductor=_paired_ratio(times["ours"], times["inductor"]) if with_inductor else None,
        inductor_error=relative_error(logits["inductor"], logits["eager"]) if with_inductor else None,
        inductor_cold_s=cold.get("inductor"),
    )


def _interleave(
    steps: dict[str, Callable[..., Tensor]], inputs: dict[str, Tensor], rounds: int, prepare: Callable[[], None]
) -> dict[str, list[float]]:
    """Milliseconds of each step in every round, without ``prepare`` before it; a repeated step writes the same rows."""
    times: dict[str, list[float]] = {name: [] for name in steps}
    with torch.no_grad():
        for _ in range(rounds):
            for name, step in steps.items():
                prepare()
                start = time.perf_counter()
                step(**inputs)
                times[name].append((time.perf_counter() - start) * 1e3)
    return times


def _paired_ratio(ours: Sequence[float], other: Sequence[float]) -> float:
    return statistics.median(left / right for left, right in zip(ours, other, strict=True))


def _inductor_with_kernels(module: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
    """Inductor sees through our kernels: it would run an opaque operator in eager and have nothing to compile."""
    from torch._decomp import decomposition_table
    from torch._inductor.compile_fx import compile_fx
    from torch._inductor.decomposition import select_decomp_table

    kernels = {
        operator: body
        for operator, body in decomposition_table.items()
        if getattr(operator, "namespace", None) == NAMESPACE
    }
    return compile_fx(module, list(inputs), decompositions={**select_decomp_table(), **kernels})
