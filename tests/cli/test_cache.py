"""``cache`` as a person types it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from deepinfer_neuron.cli.app import main
from deepinfer_neuron.errors import CompileError
from deepinfer_neuron.runtime.store import default
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.store import ArtifactStore, Made
from deepinfer_neuron.settings import Settings
from typer.testing import CliRunner
from verdicts import verdict_of

ONE = ArtifactKey("program", {"target": "host"}, {"graph": "x"})
OTHER = ArtifactKey("program", {"target": "trn2"}, {"graph": "x"})
PLAN = ArtifactKey("plan", {})


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["cache", *map(str, arguments)])


@pytest.fixture
def place(tmp_path: Path) -> Path:
    store = ArtifactStore(tmp_path / "store")
    store.put(PLAN, {"plan": b"1"})
    for key in ONE, OTHER:
        store.put(key, {"program": b"123"}, {"description": "layer 3"})
    return tmp_path / "store"


def report(path: Path, *arguments: object) -> dict[str, Any]:
    result = run(*arguments, "--store", path, "--json", path.parent / "report.json")
    assert result.exit_code == 0, result.output
    return json.loads((path.parent / "report.json").read_text())


def test_entries_are_listed(place: Path) -> None:
    result = run("ls", "--store", place)
    assert result.exit_code == 0, result.output
    assert f"{place}: 3 entries" in result.output
    assert ONE.digest[:12] in result.output
    listed = report(place, "ls", "--kind", "program")["entries"]
    assert {entry["digest"] for entry in listed} == {ONE.digest, OTHER.digest}
    assert {entry["description"] for entry in listed} == {"layer 3"}
    assert all(entry["bytes"] > 3 and 0 <= entry["unused_s"] < 600 for entry in listed)


def test_failures_are_listed_and_cleared(place: Path) -> None:
    def refuse() -> Made:
        raise CompileError("internal error 70")

    key = ArtifactKey("program", {"n": 2})
    with pytest.raises(CompileError):
        ArtifactStore(place).get_or_make(key, refuse)
    assert f"program {key.digest[:12]} failed: CompileError: internal error 70" in run("ls", "--store", place).output
    files = ArtifactStore(place).keep_failure_files(key.digest, {"module.mlir": b"ML"})
    assert f"internal error 70; its graph and module are in {files}\n" in run("ls", "--store", place).output
    assert report(place, "clear", "--failures")["removed"] == [key.digest]
    assert report(place, "ls")["failures"] == []


def test_the_newest_entry_or_a_chosen_one_is_explained(place: Path) -> None:
    expected = [f"the nearest entry is {ONE.digest[:12]}", 'target: "host" there, "trn2" here']
    assert report(place, "explain") == {"digest": OTHER.digest, "differences": expected}
    assert 'target: "trn2" there, "host" here' in run("explain", ONE.digest[:12], "--store", place).output
    assert "0 entries" in run("explain", "xyz", "--store", place).stderr
    assert "is empty" in run("explain", "--store", place.parent / "nothing").stderr


def test_damage_is_reported_once(place: Path) -> None:
    (ArtifactStore(place).local.layout.entry(ONE.digest) / "program").write_bytes(b"124")
    result = run("verify", "--store", place)
    assert result.exit_code == 1
    assert f"3 entries, 1 damaged\n{ONE.digest}" in result.output
    assert verdict_of(result.stdout)[0] == "not good"
    assert report(place, "verify") == {"store": str(place), "entries": 2, "damaged": []}


def test_entries_are_cleared_by_kind_and_age(place: Path) -> None:
    assert report(place, "clear", "--unused-for", 1)["removed"] == []
    assert report(place, "clear", "--kind", "plan")["removed"] == [PLAN.digest]
    assert len(report(place, "clear")["removed"]) == 2


def test_entries_are_exported_and_imported(place: Path) -> None:
    archive, there = place.parent / "entries.tar", place.parent / "there"
    assert set(report(place, "export", archive, "--kind", "program")["entries"]) == {ONE.digest, OTHER.digest}
    assert set(report(there, "import", archive)["entries"]) == {ONE.digest, OTHER.digest}
    archive.write_bytes(b"x" * 1000)
    result = run("import", archive, "--store", there)
    assert result.exit_code == 1
    assert "is no tar file of entries" in result.stderr


def test_the_store_of_the_environment_is_the_default(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(default, "settings", lambda: Settings(cache_directories=(place,)))
    assert f"{place}: 3 entries" in run("ls").output
    monkeypatch.setattr(default, "settings", Settings)
    result = run("ls")
    assert result.exit_code == 1
    assert "set DEEPINFER_NEURON_CACHE" in result.stderr
