"""``preflight DIR`` as a person types it: our own step passes."""

from __future__ import annotations

import json

import pytest
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.cli.preflight_tables import findings_table
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.preflight.histogram import UNWANTED, Histogram
from deepinfer_neuron.preflight.rule import Finding
from deepinfer_neuron.preflight.run import PreflightReport, run_preflight
from deepinfer_neuron.preflight.step import StepCheck
from nrt_standin import Standin
from typer.testing import CliRunner

REFUSED = Finding("EVRF029", "reported", "stablehlo.sort", "model/moe.py:31", "trn2 has no sort", "count instead", 2)
NO_OPERATIONS = Histogram((), {}, {})
REFUSED_STEP = StepCheck(4, 1, {}, NO_OPERATIONS, (REFUSED,), 0.25)


def run(*arguments: object):
    return CliRunner().invoke(main, ["preflight", *map(str, arguments)])


def test_the_decode_step_passes(nano_a, tmp_path):
    target, mode = "trn3", "whole"
    arguments = ["--target", target, "--mode", mode, "--batch-sizes", "2", "--max-context", "40"]
    result = run(nano_a, *arguments, "--json", tmp_path / "report.json")
    assert result.exit_code == 0, result.output
    assert f"{target}, mode {mode}: nothing to refuse" in result.output
    report = json.loads((tmp_path / "report.json").read_text())
    (step,) = report["steps"]
    assert f"operations checked in {step['seconds']:.2f} s, 0 findings" in result.output
    assert report["passed"]
    assert step["findings"] == []
    assert step["operations"]["stablehlo.dot_general"] > 10
    assert "stablehlo.sort" not in step["operations"]
    assert step["programs"] == 1


def test_a_finding_is_a_row_and_the_exit_status(nano_a, monkeypatch):
    monkeypatch.setattr("deepinfer_neuron.preflight.run.check_steps", lambda *args: [REFUSED_STEP])
    result = run(nano_a, "--target", "trn2", "--batch-sizes", "2")
    assert result.exit_code == 1
    assert all(text in result.output for text in ("NCC_EVRF029", "model/moe.py:31", "count instead"))


def test_the_table_says_how_a_rule_is_known():
    table = findings_table(PreflightReport("trn2", "whole", False, [REFUSED_STEP]))
    assert table.title == "trn2, mode whole: neuronx-cc would refuse or miscompile:"
    (row,) = table.rows
    assert dict(zip(table.columns, row, strict=True))["known from"] == "reported"


@pytest.mark.parametrize(("target", "about_float8"), [("trn2", True), ("trn3", False)])
def test_the_rules_about_a_target_are_listed(nano_a, monkeypatch, target, about_float8):
    passed = StepCheck(2, 1, {}, NO_OPERATIONS, (), 0.25)
    monkeypatch.setattr("deepinfer_neuron.preflight.run.check_steps", lambda *args: [passed])
    result = run(nano_a, "--target", target, "--batch-sizes", "2", "--rules")
    assert result.exit_code == 0
    assert f"Rules for {target}" in result.output
    rows = [row for row in result.output.splitlines() if "NCC_" in row]
    (sort,) = [row for row in rows if "NCC_EVRF029" in row]
    assert all(text in sort for text in ("reported", "a sort", "a negation", "order by counting"))
    assert any("NCC_EVRF051" in row for row in rows) == about_float8
    assert "nothing to refuse" in result.output


def test_only_trainium_has_limits_that_are_known(nano_a):
    with pytest.raises(ConfigError, match="is about trn1, trn2, trn3: name one of them as --target, not 'host'"):
        run_preflight(nano_a, [1], "host")


def test_without_a_target_it_is_the_device_that_counts(nano_a):
    result = run(nano_a, "--batch-sizes", "1")
    assert result.exit_code == 1
    assert "name one of them as --target, since DEEPINFER_NEURON_DEVICE stands for 'host' here" in result.stderr


@pytest.mark.slow
def test_on_a_neuron_device_its_own_family_is_checked(nano_a, on_neuron: Standin):
    result = run(nano_a, "--batch-sizes", "1", "--max-context", "40", "--mode", "regions")
    assert result.exit_code == 0, result.output
    assert "trn2, mode regions: nothing to refuse" in result.output


@pytest.mark.slow
def test_the_histogram_shows_what_a_core_is_given(nano_a, tmp_path):
    arguments = [nano_a, "--target", "trn2", "--mode", "regions", "--batch-sizes", "1,2", "--max-context", "40"]
    result = run(*arguments, "--histogram", "--rules", "--json", tmp_path / "report.json")
    assert result.exit_code == 0, result.output
    cells = [[cell.strip() for cell in line.split("│")[1:-1]] for line in result.output.splitlines()]
    assert all([what, "0", "0"] in cells for what in UNWANTED)
    assert "Rules for trn2" in result.output
    for step in json.loads((tmp_path / "report.json").read_text())["steps"]:
        assert step["findings"] == [] and step["programs"] > 1
        histogram = step["histogram"]
        assert histogram["unwanted"] == dict.fromkeys(UNWANTED, 0)
        assert sorted(histogram["elements"]) == ["bf16", "f32", "i1", "i32", "ui8"]
        gathers = [
            one["operation"] for one in histogram["operations"] if one["operation"]["name"] == "stablehlo.gather"
        ]
        assert gathers and all("i32" in one["takes"] for one in gathers)
        assert sum(one["count"] for one in histogram["operations"]) == sum(step["operations"].values())
