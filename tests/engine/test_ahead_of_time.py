"""``compile DIR`` as a person types it."""

from __future__ import annotations

import json
import shutil

import pytest
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.compiler import api
from deepinfer_neuron.engine import ahead_of_time
from deepinfer_neuron.engine.ahead_of_time import run_compile
from deepinfer_neuron.engine.decode_source import DecodeOptions
from deepinfer_neuron.engine.loading import load_decode
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.runtime.store.store import ArtifactStore
from deepinfer_neuron.settings import Settings
from typer.testing import CliRunner


def run(*arguments: object):
    return CliRunner().invoke(main, ["compile", *map(str, arguments)])


OPTIONS = {"batch_sizes": (1,), "max_context": 40, "mode": "regions", "on_miss": "error"}
ARGUMENTS = ("--batch-sizes", "1", "--mode", "regions", "--max-context", "40")


@pytest.fixture(scope="module")
def explained(small, tmp_path_factory):
    """Output, report and folder of one compilation of a checkpoint into regions."""
    folder = tmp_path_factory.mktemp("compile")
    shutil.copytree(small, folder / "checkpoint")
    kept = ["--store", folder / "store", "--jobs", "2", "--explain", "--json", folder / "report.json"]
    result = run(folder / "checkpoint", *ARGUMENTS, *kept)
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
    page = (folder / "checkpoint" / "regions.html").read_text()
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


def test_what_was_compiled_is_loaded_without_compiling(explained):
    _, report, folder = explained
    store = ArtifactStore(folder / "store")
    loaded = load_decode(folder / "checkpoint", store, **OPTIONS)
    assert not loaded.compiled
    assert {program["name"] for program in report["programs"]} == set(loaded.runner.plan.programs)
    assert {program["state"] for program in report["programs"]} == {"made"}
    assert sum(program["uses"] for program in report["programs"]) == len(report["steps"][0]["regions"])
    assert [manifest.digest for manifest, _ in store.entries("plan")] == [report["plan"]]
    assert len(store.entries("weights")) == 1


def test_a_second_run_finds_everything_and_says_so(explained, tmp_path):
    _, first, folder = explained
    arguments = (*ARGUMENTS, "--store", folder / "store", "--assert-hit", "--json", tmp_path / "report.json")
    result = run(folder / "checkpoint", *arguments)
    assert result.exit_code == 0, result.output
    report = json.loads((tmp_path / "report.json").read_text())
    assert {program["state"] for program in report["programs"]} == {"hit"}
    assert report["plan"] == first["plan"]


def test_an_asserted_hit_that_is_a_miss_says_what_differs_and_fails(explained, tmp_path):
    folder = explained[2]
    arguments = ("--batch-sizes", "2", *ARGUMENTS[2:], "--store", folder / "store", "--json", tmp_path / "report.json")
    result = run(folder / "checkpoint", *arguments, "--assert-hit")
    assert result.exit_code == 1
    assert "error: embed of batch 2: no stored program has this key: the nearest entry is" in result.stderr
    report = json.loads((tmp_path / "report.json").read_text())
    assert (report["plan"], report["steps"]) == (None, [])
    result = run(folder / "checkpoint", *ARGUMENTS, "--assert-hit")
    assert (result.exit_code, result.stderr[:29]) == (1, "error: without a store every ")


def test_without_a_store_one_process_compiles_and_keeps_nothing(explained, monkeypatch):
    asked = {}
    monkeypatch.setattr(api, "compile_decode", lambda model, sizes, **options: asked.update(options))
    monkeypatch.setattr(ahead_of_time, "explain_runner", lambda runner: [])
    result = run(explained[2] / "checkpoint", *ARGUMENTS, "--no-store")
    assert result.exit_code == 0, result.output
    assert (asked["store"], asked["mode"]) == (False, "regions")


def test_an_interrupt_has_an_exit_code_of_its_own(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(ahead_of_time, "run_compile", interrupt)
    result = run(tmp_path, "--store", tmp_path / "store")
    assert result.exit_code == 130
    assert "goes on from what is stored" in result.stderr


def test_nothing_is_compiled_where_eager_is_enforced(tmp_path, monkeypatch):
    monkeypatch.setattr(ahead_of_time, "settings", lambda: Settings(enforce_eager=True))
    with pytest.raises(ConfigError, match="DEEPINFER_ENFORCE_EAGER is set"):
        run_compile(tmp_path, DecodeOptions(), None)
