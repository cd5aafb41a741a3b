"""Levels 2 and 3 on one checkpoint: every operator, and every half layer, as compiled and in eager PyTorch."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from pathlib import Path

import torch
from torch import fx

from .compiler.levels.operator_comparison import OperatorComparison, compare_operators
from .compiler.levels.segment_comparison import SegmentComparison, compare_segments
from .compiler.levels.step import trace_step
from .compiler.pipeline import check_numerics
from .model.accuracy.teacher_forced import ForcedRequest, add_prompts
from .model.checkpoint.loader import open_checkpoint
from .model.decode import DecodeModel
from .model.kernels.engram import engram_gate
from .model.kernels.hyper_connection import hyper_connection_expand
from .model.requests import RequestPool
from .workbench import Say, golden_of, make_pool

LEVELS = (2, 3)
"""Operators, segments."""

SEGMENT_ENDS = frozenset({torch.ops.aten.embedding.default, engram_gate, hyper_connection_expand})
"""The last operator of the embedding, of an engram and of each half of a layer."""


@dataclass(frozen=True)
class BatchVerification:
    """One decode step of ``batch_size`` requests; ``nodes`` are the calls in its graph. A level left out is empty."""

    batch_size: int
    nodes: int
    operators: list[OperatorComparison]
    segments: list[SegmentComparison]


@dataclass(frozen=True)
class VerifyReport:
    """Every batch size in one numerics mode.

    ``agrees``: no operator differs by more than the table of inexact operators allows, and every segment is within its
    bar or has grown out of pieces that are. Only exact numerics promise that.
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
    pool = make_pool(checkpoint, golden, max(batch_sizes))
    prompts = sorted(golden.prompts.values(), key=lambda prompt: -prompt.length)
    say(f"prefilling {max(batch_sizes)} requests")
    forced = add_prompts(pool, list(islice(cycle(prompts), max(batch_sizes))))
    batches = []
    for batch_size in sorted(set(batch_sizes)):
        step = trace_step(pool.model, _next_inputs(pool, forced[:batch_size]))
        nodes = sum(node.op == "call_function" for node in step.module.graph.nodes)
        say(f"batch {batch_size}: {nodes} nodes")
        operators = compare_operators(step, mode) if 2 in levels else []
        say(f"batch {batch_size}: {len(operators)} operator signatures compared")
        names = _segment_names(pool.model)
        segments = compare_segments(step, _ends_segment, names, mode) if 3 in levels else []
        say(f"batch {batch_size}: {len(segments)} segments compared")
        batches.append(BatchVerification(batch_size, nodes, operators, segments))
    return VerifyReport(numerics, batches, all(map(_agrees, batches)))


def _next_inputs(pool: RequestPool, batch: Sequence[ForcedRequest]) -> dict[str, torch.Tensor]:
    return pool.step_inputs(
        [entry.request for entry in batch], [entry.golden.tokens[entry.golden.length] for entry in batch]
    )


def _ends_segment(node: fx.Node) -> bool:
    return node.target in SEGMENT_ENDS


def _segment_names(model: DecodeModel) -> list[str]:
    names = ["embed"]
    for layer in range(model.config.num_hidden_layers):
        if layer in model.config.engram_layer_ids:
            names.append(f"layers.{layer}.engram")
        names += [f"layers.{layer}.attn", f"layers.{layer}.ffn"]
    return [*names, "head"]


def _agrees(batch: BatchVerification) -> bool:
    exact = all(comparison.unexplained == 0 for comparison in batch.operators)
    return exact and all(comparison.agrees for comparison in batch.segments)
