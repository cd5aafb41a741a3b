"""``bisect --accuracy`` and ``bisect --passes`` on graphs and decode steps, with stand-ins that are at fault."""

from __future__ import annotations

import json
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from bisect_catalogue import Entry, catalogue
from deepinfer_neuron.bisection import run as bisect_run
from deepinfer_neuron.bisection.accuracy.accuracy_probe import AccuracyProbe
from deepinfer_neuron.bisection.accuracy.execution import execute
from deepinfer_neuron.bisection.report.accuracy_case import load_case
from deepinfer_neuron.bisection.run import BisectRequest, BisectRun, CompilerChoice, ModelStep, run_bisect
from deepinfer_neuron.bisection.search.options import SearchOptions
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.compiler.graphs.graph_file import SavedGraph, save_graph
from deepinfer_neuron.compiler.lowering.registry import LOWERINGS
from deepinfer_neuron.errors import ConfigError, InputError
from deepinfer_neuron.model.accuracy.golden import write_golden
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.settings import Settings
from neuron_compilers import install_compiler
from small_graphs import graph_of, operators
from stablehlo_texts import identity
from torch import Tensor
from typer.testing import CliRunner

aten = torch.ops.aten
HELPERS = Path(__file__).parents[2] / "helpers"
BATCH_SIZE = 4

ON_A_STANDIN = f"""
import sys
from pathlib import Path
sys.path.insert(0, {str(HELPERS)!r})
from nrt_standin import Standin
from deepinfer_neuron.bisection.accuracy.execute_process import leave, main
standin = Standin(Path(sys.argv[1]))
status = main(Path(sys.argv[2]))
assert standin.executions == (status == 0)
leave(status)
"""


@pytest.fixture
def wrong_sigmoid(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for a compiler's mistake: sigmoid is lowered as tanh."""
    monkeypatch.setitem(LOWERINGS, aten.sigmoid.default, LOWERINGS[aten.tanh.default])


def gate(x: Tensor, weight: Tensor) -> Tensor:
    return (x @ weight).relu() * torch.sigmoid(x)


@pytest.fixture
def graph_file(tmp_path: Path) -> Path:
    path = tmp_path / "gate.json"
    save_graph(path, SavedGraph(graph_of(gate, [torch.empty(4, 8), torch.empty(8, 8)]), {}, "host"))
    return path


@pytest.mark.slow
def test_the_command_finds_the_wrong_operation_of_a_graph(graph_file: Path, tmp_path: Path, wrong_sigmoid: None):
    report = tmp_path / "report.json"
    words = ["bisect", graph_file, "--accuracy", "--repeats", "1", "--out", tmp_path / "out", "--json", report]
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert "aten.sigmoid.default" in result.output
    assert "first wrong: %sigmoid" in result.output
    assert json.loads(report.read_text())["reproduced"]
    directory = tmp_path / "out" / "result"
    text = (directory / "report.md").read_text()
    assert "4 times the largest error of eager" in text
    (case,) = map(load_case, directory.glob("*.safetensors"))
    assert [tuple(one.shape) for one in case.inputs] == [(4, 8)]
    assert torch.equal(case.expected[0], torch.sigmoid(case.inputs[0].double()).float())


def test_that_nothing_is_wrong_is_a_result(graph_file: Path, tmp_path: Path):
    words = ["bisect", graph_file, "--accuracy", "--repeats", "1", "--out", tmp_path / "out"]
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert result.stdout.splitlines()[-1].startswith("Verdict: good: nothing computes anything else than it should")
    assert not (tmp_path / "out" / "result").exists()


def test_requests_that_contradict_themselves(graph_file: Path, tmp_path: Path):
    command, out = CompilerChoice(command="true {input}"), tmp_path / "out"
    for request, words in (
        (BisectRequest(graph_file, out, command, accuracy=True), "not a --command"),
        (BisectRequest(graph_file, out, passes=True), "give the step's checkpoint as --model"),
    ):
        with pytest.raises(ConfigError, match=words):
            run_bisect(request, print, lambda progress: None)
    module = tmp_path / "module.mlir"
    module.write_text(identity("tensor<4xf32>"))
    request = BisectRequest(module, out, CompilerChoice("host"), accuracy=True)
    with pytest.raises(InputError, match="should compute is not known"):
        run_bisect(request, print, lambda progress: None)


@pytest.fixture
def checkpoint(nano_a: Path, tmp_path: Path) -> Path:
    directory = tmp_path / "nano"
    shutil.copytree(nano_a, directory)
    prompts = {"one": [5, 6, 7], "two": [9, 8, 7, 6, 5]}
    write_golden(open_checkpoint(directory), directory / "golden.safetensors", prompts=prompts, steps=3)
    return directory


@pytest.mark.slow
@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_wrong_lowering_in_a_step_of_a_model(
    checkpoint: Path, tmp_path: Path, batch_size: int, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setitem(LOWERINGS, aten.ge.Scalar, LOWERINGS[aten.gt.Scalar])
    words = ["bisect", "--accuracy", "--model", checkpoint, "--batch-size", batch_size, "--target", "host"]
    result = CliRunner().invoke(main, list(map(str, [*words, "--repeats", "1", "--out", tmp_path / "out"])))
    assert result.exit_code == 0, result.output
    (kept,) = re.findall(r"^  (%\w+) = ([\w.]+)", result.output, re.MULTILINE)
    assert kept[1] == "aten.ge.Scalar"
    assert f"first wrong: {kept[0]}, model/" in result.output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["one operation computes something else", "two together compute something else"])
def test_planted_miscompilations_on_a_core(
    checkpoint: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
):
    """Both stand-ins: a compiler that makes something else of a step, and a runtime that runs it."""
    (entry,) = (one for one in catalogue("nano") if one.name == name)
    result = bisect_on_a_core(checkpoint, tmp_path, entry, monkeypatch)
    kept = result.reduction.kept_items
    assert len(kept) == entry.count, [one.text for one in kept]
    # The planted operation may be inside a kernel, which is written out then.
    assert result.reduction.minimal.graph is not None
    assert sorted(operators(result.reduction.minimal.graph)) == sorted(planted.operator for planted in entry.planted)
    assert result.evidence.is_minimal
    assert result.complete
    if entry.count == 1:
        assert [result.reduction.items[index].name for index in result.miscompilation.first_wrong] == [kept[0].name]


def bisect_on_a_core(checkpoint: Path, directory: Path, entry: Entry, monkeypatch: pytest.MonkeyPatch):
    compiler = install_compiler(directory / "bin", plants=entry.plants)
    asked = Settings(compiler=compiler, compiler_timeout_s=600)
    for module in ("neuronx", "neuron_fingerprint", "process"):
        monkeypatch.setattr(f"deepinfer_neuron.compiler.targets.{module}.settings", lambda: asked)
    library = directory / "libnrt"
    library.mkdir()
    monkeypatch.setenv("DEEPINFER_NEURON_DEVICE", "neuron")
    monkeypatch.setenv("DEEPINFER_NEURON_LIBNRT", str(library / "libnrt.so.1"))
    script = directory / "run_on_a_standin.py"
    script.write_text(ON_A_STANDIN)
    run = partial(execute, command=(sys.executable, str(script), str(library)))
    monkeypatch.setattr(bisect_run, "AccuracyProbe", partial(AccuracyProbe, execute=run))
    # Its script would need a runtime that runs programs by itself.
    monkeypatch.setattr(bisect_run, "write_result", partial(bisect_run.write_result, rerun=None))
    request = BisectRequest(
        what=ModelStep(checkpoint, BATCH_SIZE),
        out=directory / "out",
        compiler=CompilerChoice("trn2"),
        search=SearchOptions(repeats=1),
        accuracy=True,
    )
    run = run_bisect(request, print, lambda progress: None)
    assert isinstance(run, BisectRun)
    return run.result


@pytest.mark.slow
def test_the_pass_that_a_failure_of_a_step_comes_from(checkpoint: Path, tmp_path: Path):
    compiler = tmp_path / "refuses_i16"
    compiler.write_text('#!/bin/sh\nif grep -q "x64xi16>" "$1"; then echo "error: no i16"; exit 1; fi\n')
    compiler.chmod(0o755)
    report = tmp_path / "report.json"
    words = ["bisect", "--model", checkpoint, "--target", "host", "--command", f"{compiler} {{input}}", "--passes"]
    words += ["--no-simplify", "--out", tmp_path / "out", "--json", report]
    result = CliRunner().invoke(main, list(map(str, words)))
    assert result.exit_code == 0, result.output
    assert "introduced by pass 11, carry_mutated_bfloat16_as_int16" in result.output
    assert "carry_mutated_bfloat16_as_int16" in (tmp_path / "out" / "result" / "report.md").read_text()
