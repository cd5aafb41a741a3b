"""Level 3: every segment of a step as a program of its own, fed exactly what it is fed in eager PyTorch."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, fx

from ...passes.context import placeholders, results
from ..lowering.inexact import INEXACT
from ..lowering.locations import source_line
from ..lowering.options import Numerics
from .distance import Difference, coarse_difference, difference
from .inline import inline_decompositions
from .observed import run_observed
from .operator_walk import is_compared, is_decomposed, table_entry
from .programs import ProgramSource, compile_programs
from .segments import Segment, cut_graph, updated_source
from .step import Step

Progress = Callable[[int, int], None]

LARGEST_SHARE = 1e-4
"""A segment may have this share of its elements off, or one element if that is more."""
LARGEST_ULPS = 1
_GRAIN = INEXACT[torch.ops.aten.mm.default].ulps
"""Float32 elements may be as far off as the table of inexact operators allows a matrix product."""


@dataclass(frozen=True)
class SegmentComparison:
    """One segment's outputs, and the rows of caches that it writes.

    Attributes:
        elements: how many were compared.
        different: those with any differing bit.
        mismatched: those of bfloat16, integers and bool with any differing bit, and those of float32 that are more
            than one bfloat16 ulp off.
        max_ulps: largest distance in bfloat16 ulps of the expected element; None if a mismatch is no distance
            (integers, NaN, infinities).
        within_bar: ``mismatched`` and ``max_ulps`` are within ``LARGEST_SHARE`` and ``LARGEST_ULPS``.
        pieces: of a segment that is not within the bar in exact numerics: its decompositions are written out, it is
            cut again after each operator that is in the table of inexact ones or is a kernel with a loop, and these
            are the pieces with differing bits when fed what eager was fed.
        agrees: the segment is within the bar, or else every piece is: its mismatches have grown from those.
    """

    segment: str
    elements: int
    different: int
    mismatched: int
    max_ulps: float | None
    within_bar: bool
    pieces: tuple[SegmentComparison, ...]
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
    comparisons = []
    for part in _run_segments(step, cut_graph(step.module, is_end, names), numerics, progress):
        comparison = _judge(part)
        if numerics == "exact" and not comparison.within_bar:
            pieces = _compare_pieces(part.step, numerics)
            comparison = replace(
                comparison,
                pieces=tuple(piece for piece in pieces if piece.different),
                agrees=all(piece.within_bar for piece in pieces),
            )
        comparisons.append(comparison)
    return comparisons


@dataclass(frozen=True)
class _Part:
    """A segment with its inputs, as a step of its own, and its results from both sides."""

    segment: Segment
    step: Step
    actual: Sequence[Tensor]
    expected: Sequence[Tensor]


def _run_segments(
    step: Step, segments: Sequence[Segment], numerics: Numerics, progress: Progress = lambda done, total: None
) -> Iterator[_Part]:
    sources = [ProgramSource(segment.module, segment.updates) for segment in segments]
    programs = compile_programs(sources, numerics, lambda done: progress(done, len(sources)))
    values = dict(zip(placeholders(step.module), step.inputs, strict=True))
    for segment, program in zip(segments, programs, strict=True):
        inputs = tuple(values[node] for node in segment.inputs)
        expected = run_observed(segment.module, inputs)
        values.update(zip(segment.outputs, expected, strict=True))
        carried = {
            placeholder: step.carried[updated_source(node)]
            for placeholder, node in zip(placeholders(segment.module), segment.inputs, strict=True)
            if updated_source(node) in step.carried
        }
        yield _Part(segment, Step(segment.module, inputs, carried), program(inputs), expected)


def _judge(part: _Part) -> SegmentComparison:
    bitwise = coarse = Difference()
    returned = results(part.segment.module)
    for index, (node, actual, expected) in enumerate(zip(returned, part.actual, part.expected, strict=True)):
        if index in part.segment.updates:
            before = part.step.inputs[part.segment.updates[index]]
            actual, expected = _touched_rows(before, actual, expected)
        carried = part.step.carried.get(updated_source(node))
        if carried is not None:
            actual, expected = actual.view(carried), expected.view(carried)
        bitwise += difference(actual, expected)
        coarse += coarse_difference(actual, expected, _GRAIN)
    few = coarse.mismatched <= max(1, LARGEST_SHARE * coarse.elements)
    within_bar = few and coarse.ulps <= LARGEST_ULPS
    return SegmentComparison(
        segment=part.segment.name,
        elements=bitwise.elements,
        different=bitwise.mismatched,
        mismatched=coarse.mismatched,
        max_ulps=coarse.ulps if math.isfinite(coarse.ulps) else None,
        within_bar=within_bar,
        pieces=(),
        agrees=within_bar,
    )


def _touched_rows(before: Tensor, actual: Tensor, expected: Tensor) -> tuple[Tensor, Tensor]:
    """The rows of two versions of a tensor that either of them changed."""
    touched = ((actual != before) | (expected != before)).any(-1)
    return actual[touched], expected[touched]


def _compare_pieces(step: Step, numerics: Numerics) -> list[SegmentComparison]:
    module = inline_decompositions(step.module)
    inputs = dict(zip(placeholders(step.module), placeholders(module), strict=True))
    inlined = Step(module, step.inputs, {inputs[node]: dtype for node, dtype in step.carried.items()})
    calls = [node for node in module.graph.nodes if is_compared(node)]
    names = [f"{node.target} at {source_line(node)}" for node in calls if _may_differ(node)]
    rest = [] if _may_differ(calls[-1]) else ["the rest"]
    pieces = cut_graph(module, _may_differ, names + rest)
    return list(map(_judge, _run_segments(inlined, pieces, numerics)))


def _may_differ(node: fx.Node) -> bool:
    return is_compared(node) and (is_decomposed(node) or table_entry(node) is not None)
