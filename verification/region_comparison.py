"""Level 3: every region of a step as the program that replays it, fed exactly what it is fed in eager PyTorch."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor, fx

from ..compiler.lowering.inexact import INEXACT
from ..compiler.lowering.options import Numerics
from ..compiler.regions.cut import CutGraph, Place, Region
from ..reporting import Count
from .distance import Difference, coarse_difference, difference
from .inline import inline_decompositions
from .observed import run_observed
from .operator_walk import is_compared, is_decomposed, table_entry
from .pieces import cut_after
from .programs import compile_regions
from .step import FedStep
from .step_memory import StepMemory, carried_by_place

LARGEST_SHARE = 1e-4
"""A region may have this share of its elements off, or one element if that is more."""
LARGEST_ULPS = 1
_GRAIN = INEXACT[torch.ops.aten.mm.default].ulps
"""Float32 elements may be as far off as the table of inexact operators allows a matrix product."""


@dataclass(frozen=True)
class RegionComparison:
    """One region's outputs, and the rows of caches that it writes.

    Attributes:
        elements: how many were compared.
        different: those with any differing bit.
        mismatched: those of bfloat16, integers and bool with any differing bit, and those of float32 that are more
            than one bfloat16 ulp off.
        max_ulps: largest distance in bfloat16 ulps of the expected element; None if a mismatch is no distance
            (integers, NaN, infinities).
        within_bar: ``mismatched`` and ``max_ulps`` are within ``LARGEST_SHARE`` and ``LARGEST_ULPS``.
        pieces: of a region that is not within the bar in exact numerics: its decompositions are written out, it is
            cut again after each operator that is in the table of inexact ones or is a kernel with a loop, and these
            are the pieces with differing bits when fed what eager was fed.
        agrees: the region is within the bar, or else every piece is: its mismatches have grown from those.
    """

    region: str
    elements: int
    different: int
    mismatched: int
    max_ulps: float | None
    within_bar: bool
    pieces: tuple[RegionComparison, ...]
    agrees: bool


def compare_regions(
    step: FedStep, numerics: Numerics, progress: Count = lambda done, total: None
) -> list[RegionComparison]:
    """Compare the regions of ``step`` that are compiled; equal ones run one program.

    Raises:
        LoweringError: an operator has no lowering.
        CompileError: the compiler refused a program.
    """
    comparisons = []
    for fed in _run_regions(step.inputs, step.carried, step.cut, numerics, progress):
        comparison = _judge(fed)
        if numerics == "exact" and not comparison.within_bar:
            pieces = _compare_pieces(fed, numerics)
            comparison = replace(
                comparison,
                pieces=tuple(piece for piece in pieces if piece.different),
                agrees=all(piece.within_bar for piece in pieces),
            )
        comparisons.append(comparison)
    return comparisons


@dataclass(frozen=True)
class _FedRegion:
    """A region, what it was fed, and its results from both sides; ``carried`` as in ``FedStep``, but by place."""

    region: Region
    inputs: Sequence[Tensor]
    carried: Mapping[Place, torch.dtype]
    actual: Sequence[Tensor]
    expected: Sequence[Tensor]


def _run_regions(
    inputs: Sequence[Tensor],
    carried: Mapping[int, torch.dtype],
    cut: CutGraph,
    numerics: Numerics,
    progress: Count = lambda done, total: None,
) -> Iterator[_FedRegion]:
    """What a region was fed is valid until the next one is asked for, which writes over what it updates."""
    programs = compile_regions(cut.regions, numerics, progress)
    memory = StepMemory(inputs)
    for region, program in zip(cut.regions, programs, strict=True):
        fed = list(map(memory.read, region.inputs))
        expected = [one.clone() for one in run_observed(region.module, fed)]
        yield _FedRegion(region, fed, carried_by_place(region.inputs, carried), program(fed), expected)
        for place, result in zip(region.outputs, expected, strict=True):
            memory.write(place, result)


def _judge(fed: _FedRegion) -> RegionComparison:
    bitwise = coarse = Difference()
    for index, (place, actual, expected) in enumerate(zip(fed.region.outputs, fed.actual, fed.expected, strict=True)):
        if index in fed.region.aliases:
            before = fed.inputs[fed.region.aliases[index]]
            actual, expected = _touched_rows(before, actual, expected)
        if place in fed.carried:
            actual, expected = actual.view(fed.carried[place]), expected.view(fed.carried[place])
        bitwise += difference(actual, expected)
        coarse += coarse_difference(actual, expected, _GRAIN)
    few = coarse.mismatched <= max(1, LARGEST_SHARE * coarse.elements)
    within_bar = few and coarse.ulps <= LARGEST_ULPS
    return RegionComparison(
        region=fed.region.name,
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


def _compare_pieces(fed: _FedRegion, numerics: Numerics) -> list[RegionComparison]:
    inlined = inline_decompositions(fed.region.module)
    cut = cut_after(inlined, fed.region.aliases, _may_differ)
    carried = {i: fed.carried[place] for i, place in enumerate(fed.region.inputs) if place in fed.carried}
    return list(map(_judge, _run_regions(fed.inputs, carried, cut, numerics)))


def _may_differ(node: fx.Node) -> bool:
    return is_compared(node) and (is_decomposed(node) or table_entry(node) is not None)
