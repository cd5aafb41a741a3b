"""Levels 1 to 3 of a nano checkpoint, through the command line."""

import json

import pytest
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.model.accuracy.golden import write_golden
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.checkpoint.tiny import make_checkpoint
from typer.testing import CliRunner

PROMPTS = {"short": [5, 6, 7], "long": list(range(20, 60))}


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    path = tmp_path_factory.mktemp("verify") / "nano"
    make_checkpoint(path, "nano")
    write_golden(open_checkpoint(path), path / "golden.safetensors", prompts=PROMPTS, steps=1)
    return path


def verify(directory, *arguments):
    out = directory.parent / "report.json"
    result = CliRunner().invoke(main, ["verify", str(directory), "--json", str(out), *arguments])
    return result, json.loads(out.read_text()) if out.exists() else None


@pytest.mark.slow
def test_every_pass_keeps_every_bit_and_every_region_is_within_the_bar(directory):
    result, report = verify(directory, "--batch-sizes", "1", "--level", "1", "--level", "3")
    assert result.exit_code == 0, result.output
    assert report["agrees"] is True
    (batch,) = report["batches"]
    assert batch["operators"] == []
    assert [one["name"] for one in batch["passes"] if one["mismatched"]] == []
    assert batch["passes"][-1]["name"] == "cut into regions"
    assert [one["region"] for one in batch["regions"] if not one["within_bar"]] == []
    names = [one["region"] for one in batch["regions"]]
    assert names[:4] == ["embed", "layers.0.attention", "layers.0.experts", "layers.1.engram"]
    assert names[-1] == "end"
    assert batch["passes"][-1]["changed"] == len(names)
    assert "Level 1: the graph before and after every pass" in result.output
    assert "Level 2" not in result.output
    assert "Level 3: every region" in result.output


@pytest.mark.slow
def test_every_operator_is_exact_within_the_table(directory):
    result, report = verify(directory, "--batch-sizes", "1", "--level", "2")
    assert result.exit_code == 0, result.output
    (batch,) = report["batches"]
    assert [one for one in batch["operators"] if one["unexplained"]] == []
    differing = {one["operator"] for one in batch["operators"] if one["mismatched"]}
    assert differing <= {
        "aten.mm.default", "aten.bmm.default", "aten.exp.default", "aten.log1p.default", "aten.sqrt.default",
        "deepinfer.hyper_connection_mix.default", "deepinfer.route.default",
    }  # fmt: skip
    assert "Level 2: every operator" in result.output


def test_a_directory_without_a_checkpoint_is_refused(tmp_path):
    result, report = verify(tmp_path / "none")
    assert result.exit_code == 1
    assert report is None
    assert result.stderr.startswith("error: ")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
@pytest.mark.parametrize("numerics", ["exact", "fast"])
def test_larger_batches(directory, numerics):
    result, report = verify(directory, "--batch-sizes", "2,4", "--numerics", numerics)
    assert result.exit_code == 0, result.output
    assert [batch["batch_size"] for batch in report["batches"]] == [2, 4]
    assert report["agrees"]
    assert "Level 2: every operator" in result.output
    assert "Level 3: every region" in result.output
