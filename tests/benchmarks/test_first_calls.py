"""First calls are timed in turn, and compared round by round."""

from __future__ import annotations

import json

import pytest
from deepinfer_neuron.benchmarks import first_calls
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.errors import ConfigError
from typer.testing import CliRunner


def test_the_ratio_is_the_median_of_paired_rounds():
    seconds = iter([2.0, 4.0, 9.0, 10.0, 3.0, 30.0])
    asked = []

    def first_call(backend: str) -> float:
        asked.append(backend)
        return next(seconds)

    result = first_calls._compare("llama", first_call, 3)
    assert asked == ["deepinfer_neuron", "inductor"] * 3
    assert (result.ours_s, result.inductor_s, result.ours_to_inductor) == (3.0, 10.0, 0.5)


def test_without_transformers_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(first_calls, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="pip install 'deepinfer-neuron"):
        first_calls.time_first_calls(1, print)


@pytest.mark.slow
def test_the_command_times_a_model(monkeypatch, tmp_path):
    monkeypatch.setattr(first_calls, "MODELS", {"llama": {"num_hidden_layers": 1}})
    monkeypatch.setattr(first_calls, "SIZES", {"vocab_size": 32, "hidden_size": 32, "num_attention_heads": 2})
    out = tmp_path / "first.json"
    result = CliRunner().invoke(main, ["bench", "first-calls", "--rounds", "1", "--json", str(out)])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(out.read_text())["first-calls"]
    assert row["ours_to_inductor"] == pytest.approx(row["ours_s"] / row["inductor_s"]) and row["ours_s"] > 0
