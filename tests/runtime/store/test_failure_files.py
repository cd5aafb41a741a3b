"""Files are kept beside the record of a failure for as long as it stands, all of them or none."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
from deepinfer_neuron.errors import ArtifactError, CompileError
from deepinfer_neuron.runtime.store import failures
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.store import ArtifactStore

FILES = {"graph.json": b"{}", "module.mlir": b"ML"}


@pytest.fixture
def failed(store: ArtifactStore, key: ArtifactKey) -> ArtifactStore:
    store.remember_failure(key, CompileError("refused"))
    return store


def left(store: ArtifactStore) -> list[str]:
    return sorted(str(path.relative_to(store.local.root)) for path in store.local.root.rglob("*") if path.is_file())


def test_files_are_where_the_store_says(failed: ArtifactStore, key: ArtifactKey) -> None:
    assert failed.failure_files(key.digest) is None
    directory = failed.keep_failure_files(key.digest, FILES)
    assert directory is not None and directory == failed.failure_files(key.digest)
    assert {path.name: path.read_bytes() for path in directory.iterdir()} == FILES
    assert [failure.digest for failure in failed.failures()] == [key.digest]
    assert not list(failed.local.root.glob(".tmp.*"))


def test_files_that_are_there_stay(failed: ArtifactStore, key: ArtifactKey) -> None:
    directory = failed.keep_failure_files(key.digest, FILES)
    assert failed.keep_failure_files(key.digest, {"graph.json": b"another"}) == directory
    assert directory is not None and (directory / "graph.json").read_bytes() == b"{}"


def test_without_a_failure_nothing_is_kept(store: ArtifactStore, key: ArtifactKey) -> None:
    assert store.keep_failure_files(key.digest, FILES) is None
    assert store.failure(key.digest) is None
    assert left(store) == []


def test_files_go_when_the_failure_is_forgotten(failed: ArtifactStore, key: ArtifactKey) -> None:
    failed.keep_failure_files(key.digest, FILES)
    assert failed.clear_failures() == [key.digest]
    assert left(failed) == []
    assert list(failed.local.layout.failures.iterdir()) == []


def test_files_go_when_the_same_fails_anew(failed: ArtifactStore, key: ArtifactKey) -> None:
    failed.keep_failure_files(key.digest, FILES)
    failed.remember_failure(key, CompileError("refused again"))
    assert failed.failure_files(key.digest) is None
    assert left(failed) == [f"failures/{key.digest}.json"]


def test_what_has_expired_or_lost_its_record_is_swept(tmp_path: Path, key: ArtifactKey) -> None:
    store = ArtifactStore(tmp_path)
    other = ArtifactKey("program", {"name": "other"})
    for one in (key, other):
        store.remember_failure(one, CompileError("refused"))
        store.keep_failure_files(one.digest, FILES)
    path = store.local.layout.failure(key.digest)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"expires": 0}))
    assert store.failure_files(key.digest) is None, "it does not stand any more"
    store.put(ArtifactKey("program", {"name": "third"}), {})
    kept = [name for name in left(store) if name.startswith("failures/")]
    assert kept == sorted(f"failures/{other.digest}{end}" for end in (".json", *(f"/{name}" for name in FILES)))
    store.local.layout.failure(other.digest).unlink()
    store.evict()
    assert list(store.local.layout.failures.iterdir()) == []


def test_the_record_of_another_version_is_left_alone(failed: ArtifactStore, key: ArtifactKey) -> None:
    failed.keep_failure_files(key.digest, FILES)
    path = failed.local.layout.failure(key.digest)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema": 99}))
    before = left(failed)
    failed.evict()
    assert left(failed) == before
    path.write_text("{")
    failed.evict()
    assert left(failed) == before


def test_a_full_disk_leaves_no_part_of_the_files(
    failed: ArtifactStore, key: ArtifactKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file = failures.write_file

    def full(path: Path, source: bytes):
        if path.name == "module.mlir":
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_file(path, source)

    monkeypatch.setattr(failures, "write_file", full)
    assert failed.keep_failure_files(key.digest, FILES) is None
    assert failed.failure_files(key.digest) is None
    assert left(failed) == [f"failures/{key.digest}.json"]


def test_names_that_lead_elsewhere_are_refused(failed: ArtifactStore, key: ArtifactKey) -> None:
    with pytest.raises(ArtifactError, match="name files"):
        failed.keep_failure_files(key.digest, {"../graph.json": b""})
    assert failed.failure_files(key.digest) is None
