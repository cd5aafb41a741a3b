"""Benchmark results as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..reporting import Table
from .decode_step import StepTimes
from .first_calls import FirstCallTime
from .graph_modes import ModeTimes
from .layer_count import LayerCountCost
from .linear_fit import LinearFit
from .loading import StartCost
from .lowering_speed import LayersTime
from .pool_size import PoolTime
from .view_stores import RootTime


def step_table(steps: Sequence[StepTimes]) -> Table:
    """One row a batch size; a dash where Inductor was left out."""
    columns = (
        "batch", "eager ms", "inductor ms", "ours ms", "ours/eager", "ours/inductor", "ours error", "inductor error",
        "ours cold s", "inductor cold s",
    )  # fmt: skip
    rows = tuple(
        (
            step.batch_size,
            _number(step.eager_ms, ".1f"),
            _number(step.inductor_ms, ".1f"),
            _number(step.ours_ms, ".1f"),
            _number(step.ours_to_eager, ".2f"),
            _number(step.ours_to_inductor, ".2f"),
            _number(step.ours_error, ".1e"),
            _number(step.inductor_error, ".1e"),
            _number(step.ours_cold_s, ".1f"),
            _number(step.inductor_cold_s, ".1f"),
        )
        for step in steps
    )
    return Table("One decode step; ratios are medians of paired rounds", columns, rows)


def mode_table(modes: Sequence[ModeTimes]) -> Table:
    """One row a batch size."""
    columns = ("batch", "regions", "programs", "regions ms", "whole ms", "regions/whole")
    rows = tuple(
        (
            mode.batch_size,
            mode.regions,
            mode.programs,
            _number(mode.regions_ms, ".1f"),
            _number(mode.whole_ms, ".1f"),
            _number(mode.regions_to_whole, ".2f"),
        )
        for mode in modes
    )
    return Table("One decode step by graph mode; ratios are medians of paired rounds", columns, rows)


def pool_table(pools: Sequence[PoolTime]) -> Table:
    """One row a pool size."""
    rows = tuple(
        (pool.factor, pool.pool_bytes, _number(pool.ms_per_step, ".1f"), _number(pool.ratio, ".2f")) for pool in pools
    )
    return Table("One compiled step with larger KV pools", ("factor", "pool bytes", "ms", "ratio to the first"), rows)


def root_table(roots: Sequence[RootTime]) -> Table:
    """One row a root size."""
    rows = tuple((root.root_bytes, _number(root.ms_per_step, ".2f"), _number(root.ratio, ".2f")) for root in roots)
    return Table("Stores into four layer views of one root", ("root bytes", "ms", "ratio to the first"), rows)


def layer_table(costs: Sequence[LayerCountCost]) -> Table:
    """One row a layer count."""
    columns = (
        "layers", "nodes", "regions", "programs", "capture s", "passes s", "lowering s", "compile s",
        "capture ratio", "ratio of the rest",
    )  # fmt: skip
    rows = tuple(
        (
            cost.layers,
            cost.report.nodes,
            cost.report.regions,
            cost.report.programs,
            _number(cost.report.capture_s, ".1f"),
            _number(cost.report.passes_s, ".2f"),
            _number(cost.report.lowering_s, ".2f"),
            _number(cost.report.compile_s, ".1f"),
            _number(cost.capture_ratio, ".2f"),
            _number(cost.compile_ratio, ".2f"),
        )
        for cost in costs
    )
    return Table(f"Compiling more layers of the same kinds, mode {costs[0].report.mode}", columns, rows)


def lowering_table(times: Sequence[LayersTime]) -> Table:
    """One row a layer count."""
    rows = tuple(
        (
            one.layers,
            one.step.nodes,
            _number(one.step.passes_ms, ".1f"),
            _number(one.step.lowering_ms, ".1f"),
            _number(one.step.ms_per_1000_nodes, ".0f"),
        )
        for one in times
    )
    return Table(
        "Passes and lowering, shortest times",
        ("layers", "nodes", "passes ms", "lowering ms", "per 1000 nodes"),
        rows,
    )


def fit_table(fits: Mapping[str, LinearFit]) -> Table:
    """One row a stage."""
    rows = tuple(
        (stage, _number(fit.fixed_ms, ".0f"), _number(fit.ms_per_node * 1e3, ".0f")) for stage, fit in fits.items()
    )
    return Table("Least-squares lines over nodes", ("stage", "fixed ms", "ms per 1000 nodes"), rows)


def start_table(starts: Sequence[StartCost]) -> Table:
    """One row a start; times are medians over fresh processes."""
    columns = (
        "layers", "batch sizes", "import s", "plan ms", "programs ms", "weights ms", "bind ms", "load ms",
        "first step ms", "programs", "program MB", "weight MB", "cold s", "cold/second",
    )  # fmt: skip
    rows = tuple(
        (
            one.layers,
            ",".join(map(str, one.batch_sizes)),
            f"{one.import_s:.2f}",
            *(f"{seconds * 1e3:.0f}" for seconds in (one.plan_s, one.programs_s, one.weights_s, one.bind_s)),
            f"{one.load_s * 1e3:.0f}",
            f"{one.first_step_s * 1e3:.0f}",
            one.programs,
            f"{one.program_bytes / 1e6:.1f}",
            f"{one.weight_bytes / 1e6:.1f}",
            _number(one.cold_s, ".1f"),
            _number(one.speedup, ".1f"),
        )
        for one in starts
    )
    return Table("Starts from a full store; weights load beside programs", columns, rows)


def first_call_table(times: Sequence[FirstCallTime]) -> Table:
    """One row a model."""
    columns = ("model", "ours s", "inductor s", "ours/inductor")
    rows = tuple(
        (
            one.model,
            _number(one.ours_s, ".1f"),
            _number(one.inductor_s, ".1f"),
            _number(one.ours_to_inductor, ".2f"),
        )
        for one in times
    )
    return Table("First calls under torch.compile; ratios are medians of paired rounds", columns, rows)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
