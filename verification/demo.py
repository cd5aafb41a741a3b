"""The main job on one checkpoint: reference, eager model and compiled programs side by side."""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ..compiler.api import compile_decode
from ..model.accuracy.compare import margin_of_chance
from ..model.accuracy.golden import Golden, GoldenPrompt
from ..model.accuracy.golden_pool import load_golden_prompts, make_pool
from ..model.accuracy.metrics import logit_error, relative_error
from ..model.accuracy.probe import OperationComparison, compare_operations
from ..model.accuracy.prompts import PROMPT_LENGTHS
from ..model.accuracy.teacher_forced import ForcedRequest, add_prompts, compare_steps, rewind, run_forced
from ..model.checkpoint.loader import Checkpoint
from ..model.reference.model import ReferenceModel
from ..model.requests import RequestPool
from ..reporting import Say
from ..runtime.runner import DecodeRunner
from ..runtime.shared_caches import on_shared_caches

TIMED_STEPS = 5
PROBED_LAYER = "layers.0."


@dataclass(frozen=True)
class PromptResult:
    """The eager model on one prompt, teacher-forced, against the golden logits.

    ``argmax_match`` counts equal choices of ``steps``, and ``miss_margins`` has the reference's lead of the best logit
    over the second for each of the others; ``logits_cos`` is the smallest cosine of a step, the other distances the
    largest. ``floor_rel`` and ``floor_cos`` are those of the reference against itself.
    """

    name: str
    tokens: int
    steps: int
    argmax_match: int
    logits_rel: float
    logits_cos: float
    kl: float
    floor_rel: float
    floor_cos: float
    miss_margins: list[float]


@dataclass(frozen=True)
class CompiledResult:
    """One batch size: choices against the golden ones, distance from eager, latency, cost of compiling.

    ``regions`` calls of ``programs`` different programs are one step, both 1 in mode "whole". ``miss_margins`` is as in
    ``PromptResult``.
    ``rel_rms_to_eager`` lets the compiled steps run on the caches they wrote; ``teacher_forced_mismatch`` is the
    share of written cache elements with any differing bit when each step starts from eager's caches, and
    ``teacher_forced_logits_rel`` the distance of the logits then. Times are medians in milliseconds.
    """

    batch_size: int
    mode: str
    regions: int
    programs: int
    argmax_match: int
    steps: int
    rel_rms_to_eager: float
    teacher_forced_mismatch: float
    teacher_forced_logits_rel: float
    ms_per_step: float
    eager_ms_per_step: float
    nodes: int
    capture_s: float
    lowering_s: float
    compile_s: float
    miss_margins: list[float]


@dataclass(frozen=True)
class DemoReport:
    """Everything the demo measured.

    Where the reference's best logit leads by no more than ``noise_margin``, another run of the reference may choose
    otherwise, and so may anything else that computes the same.
    """

    prompts: list[PromptResult]
    compiled: list[CompiledResult]
    layer0: list[OperationComparison]
    noise_margin: float

    @property
    def choices(self) -> int:
        """How many tokens were chosen, in eager and by compiled steps."""
        return sum(one.steps for one in (*self.prompts, *self.compiled))

    @property
    def misses(self) -> list[float]:
        """The reference's lead at every choice that differs from its own."""
        return [margin for one in (*self.prompts, *self.compiled) for margin in one.miss_margins]

    @property
    def agrees(self) -> bool:
        """Whether every choice is the reference's or lies within its noise."""
        return all(margin <= self.noise_margin for margin in self.misses)

    def to_json(self) -> dict[str, Any]:
        """The report as a JSON object with stable keys."""
        return asdict(self) | {"agrees": self.agrees}


def run_demo(
    directory: Path,
    batch_sizes: Sequence[int],
    size: str = "tiny",
    mode: str | None = None,
    say: Say = lambda line: None,
) -> DemoReport:
    """Make the checkpoint and golden data if absent, then prefill, decode eagerly, compile, replay and compare.

    The checkpoint goes to ``directory``, the golden file beside its tensors; ``mode`` is that of ``compile_decode``.
    Raises DeepInferNeuronError subclasses for a damaged checkpoint or golden file.
    """
    checkpoint, golden = load_golden_prompts(directory, size, say)
    say("loading the decode model")
    count = max(_covering(batch_size) for batch_size in batch_sizes)
    pool = make_pool(checkpoint, golden, count)
    layer0 = _probe(checkpoint, pool, golden, say)
    say(f"prefilling {count} requests")
    forced = add_prompts(pool, list(islice(cycle(golden.prompts.values()), count)))
    prefilled = pool.model.cache.snapshot()
    prompts = []
    for name, entry in zip(golden.prompts, forced, strict=False):
        say(f"decoding {name} in eager")
        prompts.append(_judge_eager(name, entry, run_forced(pool, [entry])))
    say("compiling")
    runner = compile_decode(pool.model, batch_sizes, mode=mode, progress=say)
    runner.warm_up()
    compiled = [_judge_compiled(pool, runner, forced, prefilled, batch, say) for batch in sorted(set(batch_sizes))]
    noise = max(prompt.noise.max for prompt in golden.prompts.values())
    return DemoReport(prompts, compiled, layer0, margin_of_chance(noise))


def _probe(checkpoint: Checkpoint, pool: RequestPool, golden: Golden, say: Say) -> list[OperationComparison]:
    say("comparing the first layer with the reference, operation by operation")
    prompt = list(golden.prompts.values())[min(1, len(golden.prompts) - 1)]
    comparisons = compare_operations(
        ReferenceModel(checkpoint, pool.model.numerics),
        pool,
        prompt.tokens[: prompt.length],
        prompt.tokens[prompt.length],
    )
    return [comparison for comparison in comparisons if comparison.op.startswith(PROBED_LAYER)]


def _judge_eager(name: str, entry: ForcedRequest, decoded: Tensor) -> PromptResult:
    logits = torch.cat((entry.first_logits.unsqueeze(0), decoded[:, 0]))
    error = logit_error(logits, entry.golden.logits)
    misses = _miss_margins(logits, entry.golden)
    return PromptResult(
        name=name,
        tokens=entry.golden.length,
        steps=len(logits),
        argmax_match=len(logits) - len(misses),
        logits_rel=error.rel,
        logits_cos=1.0 - error.one_minus_cos,
        kl=error.kl,
        floor_rel=entry.golden.floor.rel,
        floor_cos=1.0 - entry.golden.floor.one_minus_cos,
        miss_margins=misses,
    )


def _covering(batch_size: int, prompts: int = len(PROMPT_LENGTHS)) -> int:
    """Requests in the fewest whole batches that take every prompt at least once."""
    return -(-prompts // batch_size) * batch_size


def _miss_margins(logits: Tensor, golden: GoldenPrompt) -> list[float]:
    """The reference's lead at each choice that ``logits``, of its last steps, make otherwise."""
    differs = logits.argmax(-1) != golden.logits[-len(logits) :].argmax(-1)
    return [margin for margin, differ in zip(golden.margins[-len(logits) :], differs.tolist(), strict=True) if differ]


def _judge_compiled(
    pool: RequestPool,
    runner: DecodeRunner,
    forced: Sequence[ForcedRequest],
    prefilled: dict[str, Tensor],
    batch_size: int,
    say: Say,
) -> CompiledResult:
    say(f"batch {batch_size}: replaying, and comparing with eager")
    step = on_shared_caches(runner)
    steps = differing = written = 0
    compiled_logits, eager_logits, step_distances, misses = [], [], [], []
    for start in range(0, _covering(batch_size), batch_size):
        batch = forced[start : start + batch_size]
        rewind(pool, forced, prefilled)
        eager_logits.append(run_forced(pool, batch))
        rewind(pool, forced, prefilled)
        compiled_logits.append(run_forced(pool, batch, step))
        for row, entry in enumerate(batch):
            misses += _miss_margins(compiled_logits[-1][:, row], entry.golden)
            steps += len(compiled_logits[-1])
        rewind(pool, forced, prefilled)
        for mismatch in compare_steps(pool, batch, step):
            differing += mismatch.cache_elements
            written += mismatch.cache_total
            step_distances.append(mismatch.logits_rel)
    eager_ms, compiled_ms = _time_steps(pool, forced[:batch_size], runner)
    report = next(report for report in runner.reports if report.batch_size == batch_size)
    return CompiledResult(
        batch_size=batch_size,
        mode=report.mode,
        regions=report.regions,
        programs=report.programs,
        argmax_match=steps - len(misses),
        steps=steps,
        rel_rms_to_eager=relative_error(torch.cat(compiled_logits), torch.cat(eager_logits)),
        teacher_forced_mismatch=differing / written,
        teacher_forced_logits_rel=max(step_distances),
        ms_per_step=compiled_ms,
        eager_ms_per_step=eager_ms,
        nodes=report.nodes,
        capture_s=report.capture_s,
        lowering_s=report.passes_s + report.lowering_s,
        compile_s=report.compile_s,
        miss_margins=misses,
    )


def _time_steps(pool: RequestPool, batch: Sequence[ForcedRequest], runner: DecodeRunner) -> tuple[float, float]:
    """Median milliseconds of the eager and the compiled step, interleaved; repeating a step writes the same rows.

    Where programs have caches of their own, sending them what eager wrote is not timed.
    """
    requests = [entry.request for entry in batch]
    inputs = pool.step_inputs(requests, [entry.golden.tokens[-1] for entry in batch])
    eager, compiled = [], []
    with torch.no_grad():
        for _ in range(TIMED_STEPS):
            runner.write_caches()
            for times, run in ((compiled, runner), (eager, pool.model)):
                start = time.perf_counter()
                run(**inputs)
                times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(eager), statistics.median(compiled)
