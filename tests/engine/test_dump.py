"""``dump DIR`` as a person types it, and what another process makes of the file."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.compiler.graphs.graph_file import load_graph
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import device_options
from typer.testing import CliRunner

LOWER = """
import hashlib, sys
from pathlib import Path
from deepinfer_neuron.compiler.graphs.graph_file import load_graph
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.lowering.options import device_options
from deepinfer_neuron.errors import ArtifactError
path = Path(sys.argv[1])
try:
    load_graph(path)
except ArtifactError as error:
    print(error)
from deepinfer_neuron.model import decode
saved = load_graph(path)
program = lower_graph(saved.module, device_options(saved.target), saved.aliases)
print(hashlib.sha256(program.bytecode).hexdigest())
"""


def run(*arguments: object):
    return CliRunner().invoke(main, ["dump", *map(str, arguments), "--max-context", "40"])


def test_another_process_lowers_the_file_to_the_same_bytes(nano_a: Path, tmp_path: Path):
    path, report = tmp_path / "step.json", tmp_path / "report.json"
    result = run(nano_a, "--batch-size", 2, "--target", "trn2", "--out", path, "--json", report)
    assert result.exit_code == 0, result.output
    written = json.loads(report.read_text())
    assert (written["region"], written["batch_size"], written["target"]) == ("whole", 2, "trn2")
    assert written["nodes"] > 500
    saved = load_graph(path)
    expected = hashlib.sha256(lower_graph(saved.module, device_options("trn2"), saved.aliases).bytecode).hexdigest()
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", LOWER, str(path)]
    refused, digest = subprocess.run(
        command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment
    ).stdout.splitlines()
    assert digest == expected
    assert "is not registered in this process: import deepinfer_neuron.model.kernels." in refused
    assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []


def test_a_region_is_dumped_by_its_name_as_mlir(nano_a: Path, tmp_path: Path):
    path = tmp_path / "experts.mlir"
    result = run(nano_a, "--region", "layers.0.experts", "--target", "trn3", "--out", path)
    assert result.exit_code == 0, result.output
    assert "layers.0.experts of batch 1 for trn3" in result.output
    text = path.read_text()
    assert "func.func public @main" in text and 'stablehlo.composite "deepinfer.mix_experts"' in text
    assert 'loc("model/moe.py":' in text


@pytest.mark.parametrize(
    "arguments", [("--region", "nobody"), pytest.param(("--mode", "regions"), marks=pytest.mark.slow)]
)
def test_regions_are_listed_for_whoever_does_not_know_them(nano_a: Path, tmp_path: Path, arguments: tuple[str, str]):
    result = run(nano_a, *arguments, "--out", tmp_path / "x.json")
    assert result.exit_code == 1
    assert "name one of these as --region: embed, layers.0.attention, layers.0.experts, " in result.output
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target", "trn2", "--numerics", "exact"), "is no use for trn2"),
        (("--target", "trn9"), "unknown target 'trn9'"),
    ],
)
def test_what_cannot_be_dumped_is_refused(nano_a: Path, tmp_path: Path, arguments: tuple[str, ...], message: str):
    result = run(nano_a, *arguments, "--out", tmp_path / "x.json")
    assert result.exit_code == 1
    assert message in result.output
    assert list(tmp_path.iterdir()) == []
