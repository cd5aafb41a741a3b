"""``run DIR`` as a person types it, on short prompts."""

from __future__ import annotations

import json
import shutil

import pytest
import torch
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.model import numerics
from deepinfer_neuron.model.accuracy.golden import load_golden, write_golden
from deepinfer_neuron.model.accuracy.tensor_file import read_tensors, write_tensors
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.settings import Settings
from deepinfer_neuron.verification import golden_run
from deepinfer_neuron.verification.golden_run import choose_mode
from typer.testing import CliRunner

PROMPTS = {"three": [5, 6, 7], "twelve": list(range(20, 32)), "one": [9]}


def run(*arguments: object):
    return CliRunner().invoke(main, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def directory(tmp_path_factory):
    """A nano checkpoint with golden values of short prompts."""
    directory = tmp_path_factory.mktemp("run") / "nano"
    assert run("tiny", "make", directory, "--size", "nano").exit_code == 0
    write_golden(open_checkpoint(directory), directory / "golden.safetensors", prompts=PROMPTS, steps=3)
    return directory


def test_eager_agrees_and_its_file_is_compared(directory, tmp_path):
    out, report = tmp_path / "eager.safetensors", tmp_path / "report.json"
    arguments = ["--mode", "eager", "--hidden", "--out", out, "--compare", "--json", report]
    result = run("run", directory, *arguments)
    assert result.exit_code == 0, result.output
    written = json.loads(report.read_text())
    assert sorted(written) == ["agrees", "choices", "comparison", "mode", "options"]
    assert written["agrees"] is True
    golden = load_golden(directory / "golden.safetensors")
    assert written["choices"] == {name: one.logits.argmax(-1).tolist() for name, one in golden.prompts.items()}
    assert {row["error"]["rel"] for row in written["comparison"]["logits"]} == {0}
    assert run("compare", out, directory / "golden.safetensors").exit_code == 0


@pytest.mark.slow
def test_compiled_regions_follow_the_golden_prompts_in_batches_with_padding(directory, tmp_path):
    out, report = tmp_path / "regions.safetensors", tmp_path / "report.json"
    arguments = ["--mode", "regions", "--batch-size", 2, "--out", out, "--json", report]
    result = run("run", directory, *arguments)
    assert result.exit_code == 0, result.output
    assert "running three, twelve\nrunning one\n" in result.output
    written = json.loads(report.read_text())
    assert (written["mode"], written["options"]["batch_size"]) == ("regions", 2)
    assert written["comparison"]["missing"] == []
    assert max(row["error"]["rel"] for row in written["comparison"]["logits"]) < 0.3
    compared = run("compare", out, directory / "golden.safetensors")
    assert compared.exit_code == (0 if written["agrees"] else 1)
    assert "left out" in compared.output


def test_compare_exits_with_1_when_logits_disagree(directory, tmp_path):
    for path in directory.iterdir():
        shutil.copy(path, tmp_path)
    tensors, metadata = read_tensors(tmp_path / "golden.safetensors")
    tensors["one/logits"] = tensors["one/logits"].flip(-1)
    write_tensors(tmp_path / "golden.safetensors", tensors, metadata)
    assert run("run", tmp_path, "--mode", "eager").exit_code == 0
    assert run("run", tmp_path, "--mode", "eager", "--compare").exit_code == 1


@pytest.mark.parametrize("mode", ["regions", "whole"])
def test_residual_streams_of_a_compiled_step_are_refused_before_any_work(tmp_path, mode):
    result = run("run", tmp_path / "absent", "--hidden", "--mode", mode)
    assert result.exit_code == 2
    assert "--hidden: it would be ignored" in result.stderr


def test_the_environment_chooses_the_mode_unless_it_is_given(monkeypatch):
    for environment, expected in (
        (Settings(), "whole"),
        (Settings(graph_mode="regions"), "regions"),
        (Settings(enforce_eager=True), "eager"),
    ):
        monkeypatch.setattr(golden_run, "settings", lambda environment=environment: environment)
        assert choose_mode(None) == expected
        assert choose_mode("eager") == "eager"
    with pytest.raises(ConfigError, match="DEEPINFER_ENFORCE_EAGER forbids mode whole"):
        choose_mode("whole")


def test_an_unknown_target_is_named(directory):
    result = run("run", directory, "--target", "trn9")
    assert result.exit_code == 1
    assert "unknown target 'trn9'" in result.stderr


@pytest.mark.slow
def test_a_smaller_fp8_range_is_compared_with_the_reference_in_its_own(directory, tmp_path, monkeypatch):
    """The environment's range reaches the engine; the golden file stays the released model's."""
    monkeypatch.setattr(numerics, "settings", lambda: Settings(fp8_max=224.0))
    engine, reference = tmp_path / "engine.safetensors", tmp_path / "reference.safetensors"
    assert run("run", directory, "--mode", "eager", "--out", engine).exit_code == 0
    golden = load_golden(directory / "golden.safetensors")
    made = write_golden(open_checkpoint(directory), reference, Numerics(fp8_max=224.0), prompts=PROMPTS, steps=3)
    assert golden.mode == "bf16_kvq_actq"
    values, _ = read_tensors(engine)
    for name, prompt in made.prompts.items():
        assert not torch.equal(values[f"{name}/logits"], golden.prompts[name].logits)
        if prompt.tokens == golden.prompts[name].tokens:
            assert torch.equal(values[f"{name}/logits"], prompt.logits)
