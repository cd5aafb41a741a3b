"""``compile DIR`` as a person types it."""

from __future__ import annotations

import json

import pytest
from deepinfer_neuron import ahead_of_time
from deepinfer_neuron.ahead_of_time import run_compile
from deepinfer_neuron.cli import main
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.settings import Settings
from typer.testing import CliRunner


def run(*arguments: object):
    return CliRunner().invoke(main, ["compile", *map(str, arguments)])


@pytest.fixture(scope="module")
def explained(tmp_path_factory):
    """Output, report and folder of one compilation of a nano checkpoint into regions."""
    folder = tmp_path_factory.mktemp("compile")
    made = CliRunner().invoke(main, ["tiny", "make", str(folder / "nano"), "--size", "nano"])
    assert made.exit_code == 0, made.output
    arguments = ["--batch-sizes", "1", "--mode", "regions", "--context", "40", "--explain", "--json"]
    result = run(folder / "nano", *arguments, folder / "report.json")
    assert result.exit_code == 0, result.output
    return result.output, json.loads((folder / "report.json").read_text()), folder


def test_the_report_has_passes_regions_and_programs(explained):
    _, report, _ = explained
    (step,) = report["steps"]
    assert sorted(step) == [
        "batch_size",
        "cache_uses",
        "caches",
        "capture_s",
        "compile_s",
        "handoffs",
        "lowering_s",
        "mode",
        "nodes",
        "passes",
        "passes_s",
        "programs",
        "regions",
        "results",
        "stored",
    ]
    assert (step["batch_size"], step["mode"]) == (1, "regions")
    names = [region["name"] for region in step["regions"]]
    assert names[:2] == ["embed", "layers.0.attention"]
    assert names[-1] == "end"
    uses = [program["uses"] for program in step["programs"]]
    assert sum(uses) == len(names) > len(uses)
    experts = {region["program"] for region in step["regions"] if region["name"].endswith("experts")}
    assert len(experts) == 1
    assert {use["updates"] for use in step["cache_uses"]} == {True, False}
    assert {use["cache"] for use in step["cache_uses"]} == set(step["caches"])


def test_tables_and_picture_are_written(explained):
    output, report, folder = explained
    assert "Batch 1: passes" in output
    assert "layers.0.attention" in output
    assert "Compiled in mode regions" in output
    page = (folder / "nano" / "regions.html").read_text()
    assert page.count("<rect") == len(report["steps"][0]["regions"])


def test_a_picture_of_another_kind_and_unknown_modes_are_refused_before_any_work(tmp_path):
    result = run(tmp_path / "absent", "--picture", tmp_path / "step.png")
    assert result.exit_code == 1
    assert "written as .html or .svg" in result.stderr
    assert run(tmp_path, "--mode", "halves").exit_code == 2
    assert list(tmp_path.iterdir()) == []


def test_a_missing_checkpoint_is_one_clean_error(tmp_path):
    result = run(tmp_path / "absent")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: ")


def test_nothing_is_compiled_where_eager_is_enforced(tmp_path, monkeypatch):
    monkeypatch.setattr(ahead_of_time, "settings", lambda: Settings(enforce_eager=True))
    with pytest.raises(ConfigError, match="DEEPINFER_ENFORCE_EAGER is set"):
        run_compile(tmp_path, [1], None, "fast")
