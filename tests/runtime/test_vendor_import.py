from __future__ import annotations

from pathlib import Path

import pytest
from deepinfer_neuron.runtime.store.store import ArtifactStore
from deepinfer_neuron.runtime.vendor_cache import find_modules
from deepinfer_neuron.runtime.vendor_import import ImportedModule, import_modules, vendor_key
from neffs import small_neff
from vendor_caches import OLD_COMPILER, make_module

DONE = {"model.hlo_module.pb": b"module", "model.done": b""}


@pytest.fixture
def vendor(tmp_path: Path) -> Path:
    return tmp_path / "vendor"


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


def imported(vendor: Path, store: ArtifactStore) -> list[ImportedModule]:
    return list(import_modules(find_modules(vendor), store))


def test_a_finished_program_is_stored_as_it_is(vendor, store):
    flags = ["--target=trn2", "--lnc", "1"]
    make_module(vendor, DONE | {"model.neff": small_neff()}, flags=flags)
    (result,) = imported(vendor, store)
    assert result.outcome == "imported"
    entry = store.get(vendor_key(result.module))
    assert entry.digest == result.digest
    assert entry.read("program.neff") == small_neff()
    assert entry.read("module.hlo") == b"module"
    assert entry.manifest.metadata == {
        "target": "trn2",
        "logical_core_size": 1,
        "module_file": "model.hlo_module.pb",
    }
    assert [again.outcome for again in imported(vendor, store)] == ["present"]


def test_a_program_is_stored_without_its_module(vendor, store):
    make_module(vendor, {"model.neff": small_neff(), "model.done": b""})
    (result,) = imported(vendor, store)
    assert list(store.get(vendor_key(result.module)).contents) == ["program.neff"]


def test_versions_and_flags_are_different_entries(vendor, store):
    files = DONE | {"model.neff": small_neff()}
    make_module(vendor, files)
    make_module(vendor, files, compiler=OLD_COMPILER)
    make_module(vendor, files, name="MODULE_1494686516964995913+617f6939", flags=["--target=trn2"])
    results = imported(vendor, store)
    assert [result.outcome for result in results] == ["imported"] * 3
    assert len({result.digest for result in results}) == 3


@pytest.mark.parametrize(
    ("files", "age_s", "reason"),
    [
        ({"model.log": b"error"}, 0, "--retry_failed_compilation"),
        ({"model.hlo_module.pb.lock": b""}, 0, "still being compiled"),
        ({"model.hlo_module.pb.lock": b""}, 99999, "given up"),
        ({"model.neff": small_neff()}, 0, "given up"),
        ({}, 0, "nothing was compiled"),
    ],
    ids=["failed", "active", "stale", "not-done", "empty"],
)
def test_anything_else_is_reported_and_not_stored(vendor, store, files, age_s, reason):
    make_module(vendor, files, age_s=age_s)
    (result,) = imported(vendor, store)
    assert (result.outcome, result.digest) == ("skipped", "")
    assert reason in result.reason
    assert store.entries() == []


@pytest.mark.parametrize(
    ("program", "flags", "reason"),
    [
        (small_neff()[:-1], [], "truncated"),
        (small_neff(), ["--target=trn1"], "compiled for trn2, expected trn1"),
        (small_neff(), ["--target", "inf2"], "compiled for trn2, expected trn1"),
        (small_neff(), ["--logical-nc-config=2"], "expected 2"),
    ],
    ids=["truncated", "target", "family", "cores"],
)
def test_a_program_that_is_not_what_it_should_be_is_refused(vendor, store, program, flags, reason):
    directory = make_module(vendor, DONE | {"model.neff": program}, flags=flags)
    (result,) = imported(vendor, store)
    assert result.outcome == "refused"
    assert result.reason.startswith(str(directory / "model.neff"))
    assert reason in result.reason
    assert store.entries() == []


def test_a_file_that_vanishes_is_refused(vendor, store):
    directory = make_module(vendor, DONE | {"model.neff": small_neff()})
    modules = find_modules(vendor)
    (directory / "model.neff").unlink()
    assert [result.outcome for result in import_modules(modules, store)] == ["refused"]


def test_what_the_store_cannot_keep_is_not_called_imported(vendor, store, monkeypatch):
    make_module(vendor, DONE | {"model.neff": small_neff()})

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(type(store.local), "write", full)
    (result,) = imported(vendor, store)
    assert (result.outcome, result.digest) == ("refused", "")
    assert "could not keep it" in result.reason


def test_the_vendors_cache_is_not_changed(vendor, store):
    directory = make_module(vendor, DONE | {"model.neff": small_neff(), "x.lock": b""})
    before = {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()}
    imported(vendor, store)
    assert {path.name: (path.read_bytes(), path.stat().st_mtime_ns) for path in directory.iterdir()} == before
