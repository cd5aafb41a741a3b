"""Bisections of the planted catalogue, and what each of them found, as a table.

Run as ``catalogue_runs.py SIZE [PROBES]`` it prints that table for the step of a model of that size; with a number of
probes PyTorch's own minifier is given the same graphs and compilers, and so many probes, for comparison.
"""

from __future__ import annotations

import math
import sys
import tempfile
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from bisect_catalogue import Entry, catalogue, operators
from decode_graphs import decode_graph
from deepinfer_neuron.benchmarks.minifier import MinifierRun, run_minifier
from deepinfer_neuron.bisection.probes.memo import Memo
from deepinfer_neuron.bisection.probes.probe_runner import Probe, ProbeRunner
from deepinfer_neuron.bisection.search.bisect import bisect
from deepinfer_neuron.bisection.search.options import SearchOptions
from deepinfer_neuron.bisection.search.result import BisectResult
from deepinfer_neuron.bisection.subjects.graph_subject import GraphSubject, stage_groups
from deepinfer_neuron.bisection.subjects.subject import Candidate
from deepinfer_neuron.cli.console import print_table
from deepinfer_neuron.compiler.lowering.options import device_options
from deepinfer_neuron.compiler.targets.command import CompilerCommand
from deepinfer_neuron.reporting import Table
from planted_compiler import PlantedCompiler
from torch import fx

TARGET = "trn2"
FEW = 3
"""Up to so many planted operators are made simpler when they are found."""

COMPILER = CompilerCommand(
    name="stand-in",
    command=("neuronx-cc", "{input}", "{output}"),
    input_name="module.mlir",
    output_name="module.neff",
    format="mlir",
    fingerprint="stand-in",
)


@cache
def whole_step(size: str) -> GraphSubject:
    """The step of a model of that size as it is compiled for the stand-in."""
    graph = decode_graph(size, TARGET)
    groups = stage_groups(graph.module, graph.context.stage_names)
    return GraphSubject(graph.module, graph.context.aliases, device_options(TARGET), groups)


def bisect_entry(
    entry: Entry, size: str, directory: Path, probe: Probe, compiler: CompilerCommand = COMPILER, jobs: int = 1
) -> BisectResult:
    """Reduce the whole step for one entry; ``directory`` keeps the verdicts."""
    options = SearchOptions(
        # So many runs that the failure is seen.
        repeats=2 if entry.rate == 1 else math.ceil(math.log(1e-3) / math.log(1 - entry.rate)),
        simplify=entry.count is not None and entry.count <= FEW,
    )
    with (
        Memo(directory / "verdicts.jsonl", compiler.fingerprint) as memo,
        ProbeRunner(probe, memo, jobs) as runner,
    ):
        return bisect(f"{size}, {entry.name}", whole_step(size), compiler, runner, options)


def kept_nodes(size: str, result: BisectResult) -> list[fx.Node]:
    """The operators of the whole step that the bisection kept."""
    names = {item.name for item in result.reduction.kept_items}
    return [node for node in operators(whole_step(size).module) if f"%{node.name}" in names]


def minify_entry(entry: Entry, size: str, probe: Probe, most_probes: int) -> MinifierRun:
    """The same graph, compiler and failure for PyTorch's minifier."""

    def fails(candidate: Candidate) -> bool:
        seen = probe(candidate, threading.Event()).signature
        return seen is not None and (seen.outcome, seen.code) == (entry.signature.outcome, entry.signature.code)

    return run_minifier(whole_step(size).module, device_options(TARGET), fails, most_probes)


@dataclass(frozen=True)
class Row:
    """What came of one entry."""

    entry: Entry
    kept: Sequence[fx.Node]
    result: BisectResult
    minifier: MinifierRun | None

    @property
    def cells(self) -> tuple[object, ...]:
        """For a table."""
        result, minifier = self.result, self.minifier
        wrong = self.entry.unexplained(self.kept)
        return (
            self.entry.name,
            result.reduction.operations,
            len(self.kept),
            "yes" if not wrong and self.entry.count in (None, len(self.kept)) else "; ".join(wrong) or "no",
            "yes" if result.evidence.is_minimal else "no",
            sum(stage.probes for stage in result.cost.stages if stage.name in ("regions", "results", "operations")),
            result.cost.probes,
            f"{result.cost.bound:.0f}",
            "-" if minifier is None else minifier.left,
            "-" if minifier is None else minifier.probes,
            "-" if minifier is None else minifier.ended,
        )


COLUMNS = (
    *("failure", "operators", "kept", "as planted", "1-minimal", "probes to find", "probes in all", "bound"),
    *("minifier keeps", "minifier probes", "minifier ended"),
)


def main(size: str, most_probes: int = 0) -> None:
    rows = []
    for entry in catalogue(size):
        with tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            result = bisect_entry(entry, size, directory, PlantedCompiler(entry.plants, directory))
            minified = (
                minify_entry(entry, size, PlantedCompiler(entry.plants, directory), most_probes)
                if most_probes
                else None
            )
        rows.append(Row(entry, kept_nodes(size, result), result, minified).cells)
        print(*rows[-1], f"{result.cost.seconds:.0f} s", sep=" | ", file=sys.stderr, flush=True)
    print_table(Table(f"Planted failures in the whole step of {size}, batch 4, {TARGET}", COLUMNS, tuple(rows)))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
