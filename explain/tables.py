"""A compiled step as tables."""

from __future__ import annotations

from collections.abc import Sequence

from ..reporting import Table
from .connections import connect
from .sizes import size_text
from .step import ExplainedRegion, ExplainedStep

DIGEST_LENGTH = 12


def summary_table(steps: Sequence[ExplainedStep]) -> Table:
    """One row a batch size; programs that a larger batch size has made cost no time again."""
    rows = tuple(
        (
            step.batch_size,
            step.nodes,
            len(step.regions),
            len(step.programs),
            step.stored,
            size_text(sum(program.bytes for program in step.programs)),
            f"{step.capture_s:.1f}",
            f"{step.passes_s:.1f}",
            f"{step.lowering_s:.1f}",
            f"{step.compile_s:.1f}",
        )
        for step in steps
    )
    modes = ", ".join(sorted({step.mode for step in steps}))
    columns = (
        "batch",
        "nodes",
        "regions",
        "programs",
        "stored",
        "size",
        "capture s",
        "passes s",
        "lower s",
        "compiler s",
    )
    return Table(f"Compiled in mode {modes}", columns, rows)


def step_tables(step: ExplainedStep) -> list[Table]:
    """Passes, regions and programs of one batch size."""
    return [_passes(step), _regions(step), _programs(step)]


def _passes(step: ExplainedStep) -> Table:
    rows = tuple((record.number, record.name, record.changed, f"{record.seconds * 1e3:.1f}") for record in step.passes)
    return Table(f"Batch {step.batch_size}: passes", ("no.", "pass", "changed", "ms"), rows)


def _regions(step: ExplainedStep) -> Table:
    received = dict.fromkeys(range(len(step.regions)), 0)
    for handoff in step.handoffs:
        received[handoff.user] += handoff.bytes
    caches = connect(step).caches
    uses = {program.number: program.uses for program in step.programs}
    rows = tuple(
        (
            region.number,
            region.name,
            _program(region, uses[region.program]),
            region.nodes,
            region.weights,
            region.slots,
            region.values,
            size_text(received[region.number]),
            region.outputs,
            ", ".join(use.cache + "*" * use.updates for use in caches.get(region.number, ())) or "-",
        )
        for region in step.regions
    )
    columns = ("no.", "region", "program", "nodes", "weights", "slots", "values", "received", "outputs", "caches")
    return Table(f"Batch {step.batch_size}: regions; * marks caches that are written", columns, rows)


def _program(region: ExplainedRegion, uses: int) -> str:
    return f"P{region.program}, used {uses}x" if uses > 1 else f"P{region.program}"


def _programs(step: ExplainedStep) -> Table:
    rows = tuple(
        (
            f"P{program.number}",
            program.digest[:DIGEST_LENGTH],
            program.uses,
            size_text(program.bytes),
            f"{program.seconds:.2f}",
        )
        for program in step.programs
    )
    title = (
        f"Batch {step.batch_size}: {len(step.programs)} programs for {len(step.regions)} regions, mode {step.mode}; "
        f"capture {step.capture_s:.1f} s, passes {step.passes_s:.1f} s, lowering {step.lowering_s:.1f} s, "
        f"compiler {step.compile_s:.1f} s"
    )
    return Table(title, ("program", "digest", "used by", "size", "compiler s"), rows)
