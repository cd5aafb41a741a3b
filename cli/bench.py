"""The benchmarks: ratios within one interleaved run, and what grows with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..files import write_report
from ..reporting import Table
from .console import ExitCode, clean_errors, parse_sizes, print_now, print_table, print_verdict
from .options import BatchSizesOption, GraphMode, JsonOption, Size, TargetOption

bench = typer.Typer(no_args_is_help=True, help=__doc__)

DirectoryOption = Annotated[Path, typer.Option("--dir", help="Where the tiny checkpoint is, or is made.")]
RoundsOption = Annotated[int, typer.Option("--rounds", min=1, help="Interleaved rounds.")]
LayersOption = Annotated[str, typer.Option("--layers", help="Numbers of layers, separated by commas.")]
SizeOption = Annotated[Size, typer.Option("--size", help="The model whose layers are repeated.")]
CompiledModeOption = Annotated[GraphMode, typer.Option("--mode", help="How the step is compiled.")]

DEMO = Path("demo")


@bench.command("steps")
def bench_steps(
    directory: DirectoryOption = DEMO,
    batch_sizes: BatchSizesOption = "1,2,4,8",
    rounds: RoundsOption = 15,
    inductor: Annotated[bool, typer.Option(help="Also time Inductor, which compiles for minutes.")] = True,
    target: TargetOption = None,
    json: JsonOption = None,
) -> None:
    """Latency, error against eager and cold compile of one step: eager, Inductor and ours."""
    with clean_errors():
        from ..benchmarks.decode_step import time_decode_steps
        from ..benchmarks.tables import step_table

        results = time_decode_steps(directory, parse_sizes(batch_sizes), rounds, inductor, print_now, target)
        _report(json, "steps", results, step_table(results))
    slowest = max(results, key=lambda one: one.ours_to_eager)
    _conclude(
        slowest.ours_to_eager < 1,
        f"a compiled step takes at most {slowest.ours_to_eager:.2f} of eager's time, at batch {slowest.batch_size}",
        "deepinfer-neuron bench modes",
    )


@bench.command("modes")
def bench_modes(
    directory: DirectoryOption = DEMO,
    batch_sizes: BatchSizesOption = "1,2,4,8",
    rounds: RoundsOption = 15,
    json: JsonOption = None,
) -> None:
    """One step in regions against the whole step as one program."""
    with clean_errors():
        from ..benchmarks.graph_modes import time_graph_modes
        from ..benchmarks.tables import mode_table

        results = time_graph_modes(directory, parse_sizes(batch_sizes), rounds, print_now)
        _report(json, "modes", results, mode_table(results))
    ratios = [one.regions_to_whole for one in results]
    _conclude(
        True,
        f"a step in regions takes {min(ratios):.2f} to {max(ratios):.2f} of the time of the whole as one program",
        "set DEEPINFER_NEURON_GRAPH_MODE to the faster one",
    )


@bench.command("pools")
def bench_pools(
    factors: Annotated[str, typer.Argument(help="How much larger the pools are, separated by commas.")] = "1,16",
    directory: DirectoryOption = DEMO,
    rounds: RoundsOption = 15,
    json: JsonOption = None,
) -> None:
    """One step with larger and larger KV pools: it copies none of them."""
    with clean_errors():
        from ..benchmarks.pool_size import time_pool_sizes
        from ..benchmarks.tables import pool_table

        results = time_pool_sizes(directory, parse_sizes(factors), rounds, print_now)
        _report(json, "pools", results, pool_table(results))
    last = results[-1]
    _conclude(
        last.ratio < last.factor / results[0].factor or len(results) == 1,
        f"with pools {last.factor} times as large a step takes {last.ratio:.2f} of the time",
        "deepinfer-neuron bench roots measures one store alone",
    )


@bench.command("roots")
def bench_roots(
    mebibytes: Annotated[str, typer.Argument(help="Sizes of the root in MiB, separated by commas.")] = "64,256",
    rounds: RoundsOption = 15,
    json: JsonOption = None,
) -> None:
    """Stores into layer views of one cache root, with larger and larger roots."""
    with clean_errors():
        from ..benchmarks.tables import root_table
        from ..benchmarks.view_stores import time_root_sizes

        results = time_root_sizes(parse_sizes(mebibytes), rounds, print_now)
        _report(json, "roots", results, root_table(results))
    last, grown = results[-1], results[-1].root_bytes / results[0].root_bytes
    _conclude(
        last.ratio < grown or len(results) == 1,
        f"with a root {grown:.0f} times as large a store takes {last.ratio:.2f} of the time",
        "deepinfer-neuron bench pools measures a whole step",
    )


@bench.command("layers")
def bench_layers(
    layers: LayersOption = "10,20,40",
    size: SizeOption = Size.tiny,
    mode: CompiledModeOption = GraphMode.regions,
    json: JsonOption = None,
) -> None:
    """Capture, programs and compile time of models with more and more layers of the same kinds."""
    with clean_errors():
        from ..benchmarks.layer_count import fit_by_nodes, time_layer_counts
        from ..benchmarks.tables import fit_table, layer_table

        results = time_layer_counts(size.value, parse_sizes(layers), mode.value, print_now)
        _report(json, "layers", results, layer_table(results), fit_table(fit_by_nodes(results)))
    last, grown = results[-1], results[-1].layers / results[0].layers
    _conclude(
        last.report.programs <= results[0].report.programs * grown,
        f"{grown:.1f} times the layers need {last.report.programs} programs instead of {results[0].report.programs}, "
        f"and {last.compile_ratio:.2f} of the time after capture",
        "deepinfer-neuron bench lowering measures passes and lowering alone",
    )


@bench.command("lowering")
def bench_lowering(
    layers: LayersOption = "10,20,40",
    size: SizeOption = Size.tiny,
    mode: CompiledModeOption = GraphMode.regions,
    rounds: RoundsOption = 5,
    json: JsonOption = None,
) -> None:
    """Passes and lowering alone, and the line through their times over the nodes of the graph."""
    with clean_errors():
        from ..benchmarks.lowering_speed import fit_lowering, time_lowering_of_layers
        from ..benchmarks.tables import fit_table, lowering_table

        results = time_lowering_of_layers(size.value, parse_sizes(layers), mode.value, rounds, print_now)
        _report(json, "lowering", results, lowering_table(results), fit_table(fit_lowering(results)))
    slowest = max(one.step.ms_per_1000_nodes for one in results)
    _conclude(
        True, f"passes and lowering take at most {slowest:.0f} ms per 1000 nodes", "deepinfer-neuron bench layers"
    )


@bench.command("start")
def bench_start(
    directory: DirectoryOption = DEMO,
    batch_sizes: BatchSizesOption = "1,2,4,8",
    mode: CompiledModeOption = GraphMode.whole,
    rounds: RoundsOption = 5,
    json: JsonOption = None,
) -> None:
    """A start from an empty store against starts of fresh processes from the full one, to the first token."""
    with clean_errors():
        from ..benchmarks.loading import time_start
        from ..benchmarks.tables import start_table
        from ..model.accuracy.golden_pool import ensure_checkpoint

        ensure_checkpoint(directory, Size.tiny, print_now)
        results = [time_start(directory, parse_sizes(batch_sizes), mode.value, rounds, print_now)]
        _report(json, "start", results, start_table(results))
    (cost,) = results
    _conclude(
        cost.speedup is not None and cost.speedup > 1,
        f"a second start takes {cost.load_s + cost.first_step_s:.2f} s to a token, the first {cost.cold_s:.2f} s",
        f"deepinfer-neuron compile {directory} --store DIRECTORY, before a server starts",
    )


@bench.command("loading")
def bench_loading(
    layers: LayersOption = "10,40",
    size: SizeOption = Size.tiny,
    mode: CompiledModeOption = GraphMode.regions,
    rounds: RoundsOption = 3,
    json: JsonOption = None,
) -> None:
    """How the start from a full store grows with layers and with batch sizes (1; and 1, 2, 4 and 8)."""
    with clean_errors():
        from ..benchmarks.loading import time_growth
        from ..benchmarks.tables import start_table

        counts = parse_sizes(layers)
        results = time_growth(size.value, counts, [(1,), (1, 2, 4, 8)], mode.value, rounds, print_now)
        _report(json, "loading", results, start_table(results))
    longest = max(results, key=lambda one: one.load_s)
    _conclude(
        True,
        f"the longest load takes {longest.load_s:.2f} s, of {longest.layers} layers and {longest.programs} programs",
        "deepinfer-neuron bench start measures a first start too",
    )


@bench.command("first-calls")
def bench_first_calls(rounds: RoundsOption = 3, json: JsonOption = None) -> None:
    """The first call of transformers models under torch.compile: ours and Inductor."""
    with clean_errors():
        from ..benchmarks.first_calls import time_first_calls
        from ..benchmarks.tables import first_call_table

        results = time_first_calls(rounds, print_now)
        _report(json, "first-calls", results, first_call_table(results))
    ratios = [one.ours_to_inductor for one in results]
    _conclude(
        max(ratios) < 1,
        f"a first call takes {min(ratios):.2f} to {max(ratios):.2f} of Inductor's time",
        "deepinfer-neuron bench layers",
    )


def _report(path: Path | None, kind: str, results: Sequence[Any], *tables: Table) -> None:
    for table in tables:
        if table.rows:
            print_table(table)
    write_report(path, {kind: [asdict(one) for one in results]})


def _conclude(good: bool, found: str, next_step: str) -> None:
    """The verdict of a measurement, which is no error even if it is not good."""
    print_verdict(found, next_step, ExitCode.GOOD if good else ExitCode.NOT_GOOD)
