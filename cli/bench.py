"""The benchmarks: ratios within one interleaved run, and what grows with what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from ..files import write_report
from .console import clean_errors, parse_sizes, print_now, print_table
from .options import GraphMode, JsonOption, Size, TargetOption

bench = typer.Typer(no_args_is_help=True, help=__doc__)

DirectoryOption = Annotated[Path, typer.Option("--dir", help="Where the tiny checkpoint is, or is made.")]
SizesOption = Annotated[str, typer.Option("--batch-sizes", help="Batch sizes, separated by commas.")]
RoundsOption = Annotated[int, typer.Option("--rounds", min=1, help="Interleaved rounds.")]
LayersOption = Annotated[str, typer.Option("--layers", help="Numbers of layers, separated by commas.")]
SizeOption = Annotated[Size, typer.Option("--size", help="The model whose layers are repeated.")]
CompiledModeOption = Annotated[GraphMode, typer.Option("--mode", help="How the step is compiled.")]

DEMO = Path("demo")


@bench.command("steps")
def bench_steps(
    directory: DirectoryOption = DEMO,
    batch_sizes: SizesOption = "1,2,4,8",
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
        print_table(*step_table(results))
        _write(json, "steps", results)


@bench.command("modes")
def bench_modes(
    directory: DirectoryOption = DEMO,
    batch_sizes: SizesOption = "1,2,4,8",
    rounds: RoundsOption = 15,
    json: JsonOption = None,
) -> None:
    """One step in regions against the whole step as one program."""
    with clean_errors():
        from ..benchmarks.graph_modes import time_graph_modes
        from ..benchmarks.tables import mode_table

        results = time_graph_modes(directory, parse_sizes(batch_sizes), rounds, print_now)
        print_table(*mode_table(results))
        _write(json, "modes", results)


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
        print_table(*pool_table(results))
        _write(json, "pools", results)


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
        print_table(*root_table(results))
        _write(json, "roots", results)


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
        print_table(*fit_table(fit_by_nodes(results)))
        print_table(*layer_table(results))
        _write(json, "layers", results)


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
        print_table(*fit_table(fit_lowering(results)))
        print_table(*lowering_table(results))
        _write(json, "lowering", results)


@bench.command("start")
def bench_start(
    directory: DirectoryOption = DEMO,
    batch_sizes: SizesOption = "1,2,4,8",
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
        print_table(*start_table(results))
        _write(json, "start", results)


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
        print_table(*start_table(results))
        _write(json, "loading", results)


def _write(path: Path | None, kind: str, results: Sequence[Any]) -> None:
    write_report(path, {kind: [asdict(one) for one in results]})
