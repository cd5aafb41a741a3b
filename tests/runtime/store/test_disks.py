"""Full, read-only and moved disks, and clocks that are set back."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from deepinfer_neuron.errors import CompileError
from deepinfer_neuron.runtime.store import failures as failures_module
from deepinfer_neuron.runtime.store.eviction import Limits
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.store import ArtifactStore, Made

FILES = {"plan": b"123"}


def failing(code: int) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    return fail


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_a_full_disk_costs_the_entry_and_one_message(
    store: ArtifactStore,
    key: ArtifactKey,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
) -> None:
    monkeypatch.setattr(os, "fsync", failing(code))
    with caplog.at_level(logging.WARNING, logger="deepinfer_neuron.store"):
        for _ in range(2):
            entry, outcome = store.get_or_make(key, lambda: Made({"plan": lambda file: file.write(b"123")}))
            assert (outcome, entry.read("plan"), entry.directory) == ("made", b"123", None)
    (message,) = caplog.messages
    assert os.strerror(code) in message
    assert [path for path in store.local.root.rglob("*") if path.is_file()] == []
    monkeypatch.undo()
    assert store.get_or_make(key, lambda: Made(FILES))[0].directory is not None


@pytest.mark.parametrize("code", [errno.EROFS, errno.EACCES])
def test_a_read_only_store_serves_and_refuses_quietly(
    store: ArtifactStore,
    key: ArtifactKey,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    code: int,
) -> None:
    store.put(key, FILES)
    for name in "mkdir", "utime", "rename", "link", "unlink":
        monkeypatch.setattr(os, name, failing(code))
    other = ArtifactKey("plan", {})
    with caplog.at_level(logging.WARNING, logger="deepinfer_neuron.store"):
        assert store.get_or_make(key, lambda: Made({}))[1] == "hit"
        entry, outcome = store.get_or_make(other, lambda: Made(FILES))
    assert (outcome, entry.read("plan"), entry.directory) == ("made", b"123", None)
    assert len(caplog.messages) == 1
    assert store.evict() == []
    assert store.clear() == []


def test_a_refused_compilation_is_raised_where_nothing_can_be_recorded(
    store: ArtifactStore, key: ArtifactKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Made:
        raise CompileError("no")

    monkeypatch.setattr(os, "fsync", failing(errno.ENOSPC))
    with pytest.raises(CompileError, match=r"^no$"):
        store.get_or_make(key, refuse)
    assert store.failures() == []


def test_a_hit_in_a_shared_store_needs_no_local_disk(
    tmp_path: Path, key: ArtifactKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    ArtifactStore(tmp_path / "far").put(key, FILES)
    monkeypatch.setattr(os, "mkdir", failing(errno.EROFS))
    entry, outcome = ArtifactStore(tmp_path / "near", [tmp_path / "far"]).get_or_make(key, lambda: Made({}))
    assert (outcome, entry.read("plan")) == ("shared hit", b"123")


def test_an_entry_that_cannot_be_read_is_a_miss(
    store: ArtifactStore, key: ArtifactKey, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    store.put(key, FILES)
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING, logger="deepinfer_neuron.store"):
        patch.setattr(Path, "read_bytes", failing(errno.EIO))
        assert store.get(key) is None
    assert "cannot be read" in caplog.text
    assert store.get(key) is not None


def test_a_moved_store_serves(store: ArtifactStore, key: ArtifactKey, tmp_path: Path) -> None:
    store.put(key, FILES)
    store.local.root.rename(tmp_path / "moved")
    entry = ArtifactStore(tmp_path / "moved").get(key)
    assert entry is not None
    assert entry.read("plan") == b"123"
    assert not [path for path in (tmp_path / "moved").rglob("*") if path.is_file() and b"/store" in path.read_bytes()]


def test_a_clock_that_is_set_back_does_not_keep_entries_for_ever(tmp_path: Path) -> None:
    store = ArtifactStore(tmp_path, limits=Limits(max_bytes=0, keep_newest=0, min_age_s=60))
    entry = store.put(ArtifactKey("plan", {}), FILES)
    assert entry.directory is not None
    manifest = entry.directory / "manifest.json"
    future = manifest.stat().st_mtime + 1e8
    os.utime(manifest, (future, future))
    assert store.evict() == []
    assert manifest.stat().st_mtime < future - 1e7
    assert store.get(ArtifactKey("plan", {})) is not None


def test_a_refusal_from_the_future_is_tried_again(
    store: ArtifactStore, key: ArtifactKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> Made:
        raise CompileError("no")

    now = failures_module.time.time()
    with monkeypatch.context() as patch:
        patch.setattr(failures_module.time, "time", lambda: now + 1e6)
        with pytest.raises(CompileError):
            store.get_or_make(key, refuse)
    assert store.get_or_make(key, lambda: Made(FILES))[1] == "made"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": 1, "digest": "x"}', "\x00"])
def test_an_unreadable_record_of_a_refusal_is_ignored(store: ArtifactStore, key: ArtifactKey, text: str) -> None:
    record = store.local.layout.failure(key.digest)
    record.parent.mkdir(parents=True)
    record.write_text(text)
    assert store.failures() == []
    assert store.get_or_make(key, lambda: Made(FILES))[1] == "made"
