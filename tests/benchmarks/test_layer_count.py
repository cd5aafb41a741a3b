"""The cost of more layers, as the command reports it."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from deepinfer_neuron.benchmarks import layer_count
from deepinfer_neuron.benchmarks.layer_count import LayerCountCost, fit_by_nodes
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.runtime.stats import CompileReport
from typer.testing import CliRunner


def report(layers: int, nodes: int, capture_s: float, lowering_s: float, compile_s: float) -> CompileReport:
    return CompileReport(
        batch_size=2,
        mode="regions",
        nodes=nodes,
        regions=layers * 2,
        programs=10,
        capture_s=capture_s,
        passes_s=0.1,
        lowering_s=lowering_s,
        compile_s=compile_s,
        passes=(),
        region_nodes=(),
        program_s={},
    )


def cost(nodes: int, capture_s: float) -> LayerCountCost:
    return LayerCountCost(nodes // 10, report(nodes // 10, nodes, capture_s, nodes * 1e-4, 1.0), 1.0, 1.0)


def test_the_fit_finds_the_fixed_part_and_the_part_of_each_node():
    fits = fit_by_nodes([cost(100, 0.7), cost(200, 0.9), cost(400, 1.3)])
    assert (fits["capture"].fixed_ms, fits["capture"].ms_per_node) == pytest.approx((500, 2))
    rest = fits["passes and lowering"]
    assert (rest.fixed_ms, rest.ms_per_node) == pytest.approx((100, 0.1))


def test_one_layer_count_has_no_fit():
    assert fit_by_nodes([cost(100, 0.7)]) == {}


def test_the_command_reports_each_count_against_the_first(tmp_path, monkeypatch):
    def compile_quickly(model, batch_sizes, mode):
        assert (batch_sizes, mode) == ([2], "regions")
        layers = model.config.num_hidden_layers
        return SimpleNamespace(reports=[report(layers, layers * 80, layers * 0.5, 0.9, layers * 0.25)])

    monkeypatch.setattr(layer_count, "compile_decode", compile_quickly)
    out = tmp_path / "layers.json"
    result = CliRunner().invoke(main, ["bench", "layers", "--layers", "8,16", "--size", "nano", "--json", str(out)])
    assert result.exit_code == 0, result.output
    assert "more layers of the same kinds, mode regions" in result.output
    short, long = json.loads(out.read_text())["layers"]
    assert (short["layers"], long["layers"]) == (8, 16)
    assert (short["capture_ratio"], short["compile_ratio"]) == (1, 1)
    assert long["report"]["programs"] == 10
    assert long["capture_ratio"] == 2
    assert long["compile_ratio"] == pytest.approx(5 / 3)


def test_a_layer_count_that_cannot_be_made_is_an_error():
    result = CliRunner().invoke(main, ["bench", "layers", "--layers", "8,12", "--size", "nano"])
    assert result.exit_code == 1
    assert "multiple of the 8 layers" in result.stderr
