"""Compile a model's decode step into a store, without loading anything."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from torch import nn

from ...runtime.loader import DecodeVariant, store_plan
from ...runtime.plan import DecodePlan
from ...runtime.stats import CompileReport
from ...runtime.store.store import ArtifactStore
from ..programs.compiling_threads import compiling_threads
from ..programs.region_programs import RegionPrograms
from ..programs.stored_programs import StoredProgram, StoredPrograms, Watch, failed
from ..targets.table import find_target
from .captured_step import slots_of
from .pipeline import check_graph_mode, check_numerics
from .started_steps import StartedStep, start_steps


@dataclass(frozen=True)
class StoredSteps:
    """What came of compiling a ladder of batch sizes.

    Attributes:
        programs: in the order in which they were met, those of the largest batch size first.
        plan: how the steps are replayed; None if a program failed.
        reports: one for each batch size, largest first; none if a program failed.
    """

    programs: tuple[StoredProgram, ...]
    plan: DecodePlan | None
    reports: tuple[CompileReport, ...]


def compile_into_store(
    model: nn.Module,
    variant: DecodeVariant,
    store: ArtifactStore,
    jobs: int,
    assert_hit: bool = False,
    watch: Watch = lambda program: None,
    progress: Callable[[str], None] = lambda line: None,
) -> StoredSteps:
    """Compile the decode step of ``model`` for ``variant`` and store programs and plan.

    Each program is compiled in a process of its own. One that fails does not stop the others. KeyboardInterrupt ends
    them all; what was stored stays, and the next run goes on from there.

    Args:
        jobs: programs that are compiled at once.
        assert_hit: count programs that are not stored as failed, instead of compiling them.
        watch: called whenever something happens to a program, from any thread.
        progress: called with a line of text as each batch size was captured.

    Raises:
        CaptureError: the step is not one static graph; the message names the source line.
        ConfigError: an unknown target, numerics or mode.
    """
    slots, mode = slots_of(model), check_graph_mode(variant.mode)
    target, numerics = find_target(variant.target).isolated(), check_numerics(variant.numerics)
    with compiling_threads(target, jobs) as pool:
        programs = StoredPrograms(RegionPrograms(target, numerics, pool, store, assert_hit, must_store=True), watch)
        started = start_steps(model, variant.batch_sizes, target, mode, programs.add, progress)
        made = programs.wait()
    # What the first slices of a root asked for and the last ones do not is stored, but no part of the result.
    uses = Counter(kind for step in started for kind in step.programs)
    used = {kind: replace(made[kind], uses=count) for kind, count in uses.items()}
    results = tuple(used.values())
    if failed(results):
        return StoredSteps(results, None, ())
    plan = DecodePlan(slots, tuple(step.plan([used[kind] for kind in step.programs]) for step in started))
    store_plan(store, variant, plan)
    return StoredSteps(results, plan, tuple(_reports(started, used)))


def _reports(started: Sequence[StartedStep[str]], programs: dict[str, StoredProgram]) -> list[CompileReport]:
    reports: list[CompileReport] = []
    for step in started:
        known = {name for report in reports for name in report.program_s}
        reports.append(step.report([programs[kind] for kind in step.programs], known))
    return reports
