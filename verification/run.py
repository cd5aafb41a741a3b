"""Levels 1 to 3 on one checkpoint: every pass, operator and region of a decode step against eager PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

from ..compiler.lowering.options import Numerics
from ..compiler.steps.decode_steps import decode_steps, observe_nothing
from ..compiler.steps.pipeline import check_numerics, count_calls
from ..compiler.targets.table import find_target
from ..model.accuracy.golden_pool import golden_of, make_pool
from ..model.accuracy.teacher_forced import add_prompts, golden_inputs
from ..model.checkpoint.loader import open_checkpoint
from ..reporting import Say
from .operator_comparison import OperatorComparison, compare_operators
from .pass_comparison import PassComparison, PassObserver, compare_cut
from .region_comparison import RegionComparison, compare_regions
from .step import FedStep, feed

LEVELS = (1, 2, 3)
"""Passes and the cut, operators, regions."""


@dataclass(frozen=True)
class BatchVerification:
    """One decode step of ``batch_size`` requests; ``nodes`` are the calls in its graph. A level left out is empty."""

    batch_size: int
    nodes: int
    passes: list[PassComparison]
    operators: list[OperatorComparison]
    regions: list[RegionComparison]


@dataclass(frozen=True)
class VerifyReport:
    """Every batch size in one numerics mode.

    ``agrees``: no pass changes a bit, and in exact numerics no operator differs by more than the table of inexact
    operators allows, and every region is within its bar or has grown out of pieces that are.
    """

    numerics: str
    batches: list[BatchVerification]
    agrees: bool


def run_verify(
    directory: Path,
    batch_sizes: Sequence[int],
    numerics: str,
    say: Say = lambda line: None,
    levels: Collection[int] = LEVELS,
) -> VerifyReport:
    """Prefill the golden prompts of a checkpoint, longest first, and compare one decode step per batch size.

    ``levels`` are those to measure. Golden values are made beside the checkpoint if they are absent. Raises
    CheckpointError or ArtifactError for a damaged checkpoint or golden file, ConfigError for unknown numerics.
    """
    mode = check_numerics(numerics)
    checkpoint = open_checkpoint(directory)
    golden = golden_of(checkpoint, say)
    say("loading the decode model")
    pool = make_pool(checkpoint, golden, max(batch_sizes), "host")
    prompts = sorted(golden.prompts.values(), key=lambda prompt: -prompt.length)
    say(f"prefilling {max(batch_sizes)} requests")
    forced = add_prompts(pool, list(islice(cycle(prompts), max(batch_sizes))))
    inputs = {size: golden_inputs(pool, forced[:size]) for size in sorted(set(batch_sizes))}
    passes = PassObserver(inputs)
    observe = passes if 1 in levels else observe_nothing
    steps = decode_steps(pool.model, list(inputs), find_target("host"), "regions", observe=observe, say=say)
    batches = [
        _verify_batch(step.size, feed(step, inputs[step.size]), passes.comparisons[step.size], mode, levels, say)
        for step in reversed(steps)
    ]
    return VerifyReport(numerics, batches, all(_agrees(batch, mode) for batch in batches))


def _verify_batch(
    size: int,
    step: FedStep,
    compared: Sequence[PassComparison],
    numerics: Numerics,
    levels: Collection[int],
    say: Say,
) -> BatchVerification:
    passes = [*compared, compare_cut(step)] if 1 in levels else []
    operators = compare_operators(step, numerics) if 2 in levels else []
    say(f"batch {size}: {len(operators)} operator signatures compared")
    regions = compare_regions(step, numerics) if 3 in levels else []
    say(f"batch {size}: {len(regions)} regions compared")
    return BatchVerification(size, count_calls(step.module), passes, operators, regions)


def _agrees(batch: BatchVerification, numerics: Numerics) -> bool:
    if any(comparison.mismatched for comparison in batch.passes):
        return False
    if numerics == "fast":
        return True
    exact = all(comparison.unexplained == 0 for comparison in batch.operators)
    return exact and all(comparison.agrees for comparison in batch.regions)
