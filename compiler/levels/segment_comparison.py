"""Level 3: every segment of a step as a program of its own, fed exactly what it is fed in eager PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, fx

from ...passes.context import placeholders
from ..lowering.options import Numerics
from .distance import Difference, difference
from .observed import run_observed
from .programs import HostProgram, ProgramSource, compile_programs
from .segments import Segment, cut_graph, updated_source
from .step import Step

Progress = Callable[[int, int], None]

LARGEST_SHARE = 1e-4
"""A segment may have this share of its elements off, or one element if that is more."""
LARGEST_ULPS = 1


@dataclass(frozen=True)
class SegmentComparison:
    """One segment's outputs, and the rows of caches that it writes.

    Attributes:
        elements: how many were compared.
        different: those with any differing bit.
        mismatched: those that still differ when wider floats are rounded to bfloat16.
        max_ulps: largest distance then, in bfloat16 ulps of the expected element; None if a mismatch is no distance
            (integers, NaN, infinities).
        agrees: ``mismatched`` and ``max_ulps`` are within ``LARGEST_SHARE`` and ``LARGEST_ULPS``.
    """

    segment: str
    elements: int
    different: int
    mismatched: int
    max_ulps: float | None
    agrees: bool


def compare_segments(
    step: Step,
    is_end: Callable[[fx.Node], bool],
    names: Sequence[str],
    numerics: Numerics,
    progress: Progress = lambda done, total: None,
) -> list[SegmentComparison]:
    """Cut ``step`` after the nodes that ``is_end`` accepts and compare the segments, named ``names`` in order.

    Raises:
        GraphError: there is not one name for each segment.
        LoweringError: an operator has no lowering.
        CompileError: the compiler refused a program.
    """
    segments = cut_graph(step.module, is_end, names)
    sources = [ProgramSource(segment.module, segment.updates) for segment in segments]
    programs = compile_programs(sources, numerics, lambda done: progress(done, len(sources)))
    values = dict(zip(placeholders(step.module), step.inputs, strict=True))
    return [_compare(step, segment, program, values) for segment, program in zip(segments, programs, strict=True)]


def _compare(step: Step, segment: Segment, program: HostProgram, values: dict[fx.Node, Tensor]) -> SegmentComparison:
    """Compare one segment and leave eager's results in ``values``."""
    inputs = [values[node] for node in segment.inputs]
    results = run_observed(segment.module, inputs)
    values.update(zip(segment.outputs, results, strict=True))
    total = rounded = Difference()
    for index, (actual, expected) in enumerate(zip(program(inputs), results, strict=True)):
        if index in segment.updates:
            actual, expected = _touched_rows(inputs[segment.updates[index]], actual, expected)
        carried = step.carried.get(updated_source(segment.outputs[index]))
        if carried is not None:
            actual, expected = actual.view(carried), expected.view(carried)
        total += difference(actual, expected)
        rounded += difference(_as_bfloat16(actual), _as_bfloat16(expected))
    few = rounded.mismatched <= max(1, LARGEST_SHARE * rounded.elements)
    return SegmentComparison(
        segment=segment.name,
        elements=total.elements,
        different=total.mismatched,
        mismatched=rounded.mismatched,
        max_ulps=rounded.ulps if math.isfinite(rounded.ulps) else None,
        agrees=few and rounded.ulps <= LARGEST_ULPS,
    )


def _touched_rows(before: Tensor, actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of two versions of a tensor that either of them changed."""
    touched = ((actual != before) | (expected != before)).any(-1)
    return actual[touched], expected[touched]


def _as_bfloat16(tensor: Tensor) -> Tensor:
    return tensor.to(torch.bfloat16) if tensor.dtype in (torch.float32, torch.float64) else tensor
