"""Check a model's decode step as it is compiled, without its compiler."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import nn

from ..compiler.lowering.lower import LoweredModule
from ..compiler.programs.region_lowering import RegionLowering
from ..compiler.regions.canonical import canonical_digest
from ..compiler.steps.decode_steps import decode_steps
from ..compiler.targets.base import Target
from ..reporting import Say
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


def check_steps(
    model: nn.Module, batch_sizes: Sequence[int], target: Target, mode: GraphMode, say: Say = lambda line: None
) -> list[StepCheck]:
    """Capture, pass, cut and lower the steps that ``model`` is compiled to for ``target``, and check every program.

    Raises:
        CaptureError: the step is not one static graph, or returns what programs cannot return.
        GraphError: the graph breaks an invariant of the lowering.
        LoweringError: an operator has no lowering.
    """
    lowering = RegionLowering(target, "fast")
    lowered: dict[str, LoweredModule] = {}
    checks = []
    for step in reversed(decode_steps(model, batch_sizes, target, mode, say=say)):
        kinds = {canonical_digest(region): region for region in step.cut.regions}
        for kind in kinds.keys() - lowered.keys():
            lowered[kind] = lowering.lower(kinds[kind])
        checks.append(_check(step.size, [lowered[kind].bytecode for kind in kinds], target.name))
    return checks


def _check(batch_size: int, modules: Sequence[bytes], target: str) -> StepCheck:
    start = time.perf_counter()
    findings = merge_findings(one for module in modules for one in check_module(module, target))
    seconds = time.perf_counter() - start
    histogram = histogram_of(modules)
    return StepCheck(batch_size, len(modules), histogram.names, histogram, tuple(findings), seconds)
