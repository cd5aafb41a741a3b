"""What a real compiler really fails on is reduced to its few lines, and fails again by itself."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from decode_graphs import decode_graph
from deepinfer_neuron.bisection.run import BisectRequest, BisectRun, CompilerChoice, run_bisect
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import device_options
from small_graphs import graph_of
from wide_indices import with_wide_indices

CAUSE = "failed to legalize unresolved source materialization from"
OPTIONS = device_options("iree")


def store(
    keys: torch.Tensor, values: torch.Tensor, rows: torch.Tensor, x: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Two caches written at the rows of one step, after other work."""
    return keys.index_put((rows,), torch.tanh(x)), values.index_put((rows,), torch.sigmoid(x))


def reduce(directory: Path, text: str) -> BisectRun:
    path = directory / "module.mlir"
    path.write_text(with_wide_indices(text))
    return run_bisect(BisectRequest(path, directory / "out", CompilerChoice("iree")), print, lambda progress: None)


def operations(run: BisectRun) -> list[str]:
    text = (run.written.directory / "minimal.mlir").read_text()
    return re.findall(r"= \"?(stablehlo\.\w+)", text)


def check(run: BisectRun) -> None:
    assert CAUSE in run.result.failure.signature.message
    assert run.result.complete
    assert run.result.evidence.is_minimal
    assert run.is_reproduced, run.written.run
    assert operations(run).count("stablehlo.scatter") == 2
    assert len(operations(run)) <= 4
    scattered = re.findall(r"stablehlo\.scatter\"\(%\w+, (%\w+),", (run.written.directory / "minimal.mlir").read_text())
    assert len(set(scattered)) == 1, "both scatters read one index"


@pytest.mark.slow
def test_two_scatters_with_one_int64_index_are_all_that_is_left_for_iree(tmp_path: Path):
    cache, x = torch.empty(32, 16), torch.empty(4, 16)
    graph = graph_of(store, [cache, cache, torch.empty(4, dtype=torch.int32), x])
    check(reduce(tmp_path, lower_graph(graph, OPTIONS).text(locations=True)))


@pytest.mark.slow
def test_the_same_is_found_in_a_whole_decode_step(tmp_path: Path):
    graph = decode_graph("nano", "iree")
    run = reduce(tmp_path, lower_graph(graph.module, OPTIONS, graph.context.aliases).text(locations=True))
    check(run)
    lines = {item.line.partition(":")[0] for item in run.result.reduction.kept_items}
    assert "model/attention.py" in lines
