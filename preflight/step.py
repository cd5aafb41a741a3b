"""Check a model's decode step as it would be compiled, without its compiler."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace

from torch import nn

from ..compiler.lowering.decompose import Decompositions
from ..compiler.lowering.device_kernels.replacement import Replacements
from ..compiler.lowering.lower import LoweredModule, lower_graph
from ..compiler.lowering.options import KernelTarget, LoweringOptions, device_options
from ..compiler.regions.canonical import canonical_digest
from ..compiler.regions.cut import Region
from ..compiler.steps.cut_step import cut_step
from ..runtime.plan import GraphMode
from .check import check_module, merge_findings
from .histogram import Histogram, histogram_of
from .rule import Finding


@dataclass(frozen=True)
class StepCheck:
    """What was found in the programs of one batch size.

    Attributes:
        batch_size: requests of the step.
        programs: how many different programs it needs.
        operations: how many StableHLO operations of each name they have together.
        histogram: the same by element types.
        findings: what the compiler would refuse, or compile to wrong values.
        seconds: that the rules took, once the programs were lowered.
    """

    batch_size: int
    programs: int
    operations: Mapping[str, int]
    histogram: Histogram
    findings: tuple[Finding, ...]
    seconds: float


def check_step(
    model: nn.Module,
    batch_size: int,
    target: str,
    mode: GraphMode = "whole",
    kernels_for: KernelTarget | None = None,
) -> StepCheck:
    """Capture, pass and lower one step of ``model`` for ``target`` and check every program.

    ``kernels_for``: let device kernels replace bodies of operators, as in ``LoweringOptions``.

    Raises:
        CaptureError: the step is not one static graph.
        ConfigError: an unknown target.
        GraphError: the graph breaks an invariant of the lowering.
        LoweringError: an operator has no lowering.
    """
    options = replace(device_options(target), kernels_for=kernels_for)
    programs = _lower_step(model, batch_size, target, mode, options)
    start = time.perf_counter()
    findings = merge_findings(one for program in programs for one in check_module(program.bytecode, target))
    seconds = time.perf_counter() - start
    histogram = histogram_of(program.bytecode for program in programs)
    return StepCheck(batch_size, len(programs), histogram.names, histogram, tuple(findings), seconds)


@dataclass(frozen=True)
class _Device:
    name: str


def _lower_step(
    model: nn.Module, batch_size: int, target: str, mode: GraphMode, options: LoweringOptions
) -> list[LoweredModule]:
    kinds: dict[str, Region] = {}
    for region in cut_step(model, batch_size, _Device(target), mode).regions:
        kinds.setdefault(canonical_digest(region), region)
    shared = Decompositions(options), Replacements(options)
    return [lower_graph(region.module, options, region.aliases, *shared) for region in kinds.values()]
