"""The time of passes and lowering, as the command reports it."""

from __future__ import annotations

import json

import pytest
from deepinfer_neuron.benchmarks.lowering_speed import LayersTime, LoweringTime, fit_lowering
from deepinfer_neuron.cli.app import main
from typer.testing import CliRunner


def test_both_stages_and_their_sum_have_a_line():
    times = [LayersTime(nodes // 80, LoweringTime(nodes, nodes * 0.01, 40 + nodes * 0.02)) for nodes in (800, 1600)]
    fits = fit_lowering(times)
    assert (fits["passes"].fixed_ms, fits["passes"].ms_per_node) == pytest.approx((0, 0.01))
    assert (fits["lowering"].fixed_ms, fits["lowering"].ms_per_node) == pytest.approx((40, 0.02))
    assert (fits["passes and lowering"].fixed_ms, fits["passes and lowering"].ms_per_node) == pytest.approx((40, 0.03))
    assert times[0].step.ms_per_1000_nodes == pytest.approx(80)


def test_one_layer_count_has_no_fit():
    assert fit_lowering([LayersTime(10, LoweringTime(800, 8.0, 56.0))]) == {}


@pytest.mark.parametrize("mode", ["whole", pytest.param("regions", marks=pytest.mark.slow)])
def test_the_command_lowers_and_compiles_nothing(tmp_path, monkeypatch, mode):
    def compiles(self, module):
        raise AssertionError("nothing is to be compiled")

    monkeypatch.setattr("deepinfer_neuron.compiler.targets.host.HostTarget.compile", compiles)
    out = tmp_path / "lowering.json"
    arguments = ["bench", "lowering", "--layers", "8", "--size", "nano", "--mode", mode, "--rounds", "2"]
    result = CliRunner().invoke(main, [*arguments, "--json", str(out)])
    assert result.exit_code == 0, result.output
    (row,) = json.loads(out.read_text())["lowering"]
    assert row["layers"] == 8
    assert row["step"]["nodes"] > 500
    assert row["step"]["passes_ms"] > 0
    assert row["step"]["lowering_ms"] > 0
