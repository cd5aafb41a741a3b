from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import BinaryIO

import pytest
from deepinfer_neuron.errors import ArtifactError, CompileError
from deepinfer_neuron.runtime.store import entry as entry_module
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.store import ArtifactStore, Made

RACE = """
import os, sys, time
from pathlib import Path
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.store import ArtifactStore, Made

root, log = map(Path, sys.argv[1:])

def make():
    with log.open("a") as file:
        file.write("made\\n")
    time.sleep(0.3)
    return Made({"program": b"payload" * 1000})

children = []
for _ in range(8):
    pid = os.fork()
    if pid == 0:
        entry, outcome = ArtifactStore(root).get_or_make(ArtifactKey("program", {"a": 1}), make)
        os._exit(0 if entry.read("program") == b"payload" * 1000 else 1)
    children.append(pid)
print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children])
"""


def never() -> Made:
    raise AssertionError("made although it is stored")


def test_what_is_put_is_found(store: ArtifactStore, key: ArtifactKey) -> None:
    assert store.get(key) is None
    store.put(key, {"plan": b"123"}, {"description": "a plan"})
    entry = store.get(key)
    assert entry is not None
    assert entry.read("plan") == b"123"
    assert entry.path("plan").read_bytes() == b"123"
    assert entry.manifest.metadata == {"description": "a plan"}
    assert store.key_text(entry.manifest, "graph") == key.texts["graph"]
    assert entry.directory == store.local.root / "entries" / key.digest[:2] / key.digest[2:4] / key.digest


def test_another_key_is_a_miss(store: ArtifactStore, key: ArtifactKey) -> None:
    store.put(key, {"plan": b"123"})
    assert store.get(ArtifactKey("plan", {})) is None


def test_files_are_given_as_bytes_paths_or_writers(store: ArtifactStore, key: ArtifactKey, tmp_path: Path) -> None:
    original = tmp_path / "original"
    original.write_bytes(b"from a file")

    def write(file: BinaryIO) -> None:
        file.write(b"from a ")
        file.write(b"writer")

    entry = store.put(key, {"bytes": b"", "path": original, "writer": write})
    assert [entry.read(name) for name in ("bytes", "path", "writer")] == [b"", b"from a file", b"from a writer"]


def test_large_files_stay_on_disk(store: ArtifactStore, key: ArtifactKey, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry_module, "LARGE", 10)
    entry = store.put(key, {"weights": b"x" * 11})
    assert entry.contents["weights"] == entry.path("weights")
    assert entry.read("weights") == b"x" * 11
    entry.path("weights").write_bytes(b"y" * 11)
    with pytest.raises(ArtifactError, match="changed"):
        entry.read("weights")


def test_many_large_files_are_verified_by_threads(
    store: ArtifactStore, key: ArtifactKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_module, "_WORTH_THREADS", 0)
    files = {f"weights-{number}": bytes([number]) * 100 for number in range(10)}
    store.put(key, files)
    entry = store.get(key)
    assert entry is not None
    assert {name: entry.read(name) for name in files} == files


def test_a_file_that_is_not_there_is_named(store: ArtifactStore, key: ArtifactKey) -> None:
    entry = store.put(key, {"plan": b""})
    with pytest.raises(ArtifactError, match=r"no file 'program'.*plan"):
        entry.read("program")


def test_unsafe_names_are_refused_and_leave_nothing(store: ArtifactStore, key: ArtifactKey) -> None:
    with pytest.raises(ArtifactError, match="letters"):
        store.put(key, {"../plan": b""})
    assert list(store.local.root.iterdir()) == []


def test_the_first_of_two_puts_stays(store: ArtifactStore, key: ArtifactKey) -> None:
    store.put(key, {"plan": b"first"})
    assert store.put(key, {"plan": b"second"}).read("plan") == b"first"
    assert [path.name for path in store.local.root.iterdir()] == ["entries"]


def test_the_outcome_says_where_an_entry_came_from(tmp_path: Path, key: ArtifactKey) -> None:
    far = ArtifactStore(tmp_path / "far")
    near = ArtifactStore(tmp_path / "near", shared=[tmp_path / "nowhere", tmp_path / "far"])
    assert far.get_or_make(key, lambda: Made({"plan": b"1"}))[1] == "made"
    assert far.get_or_make(key, never)[1] == "hit"
    assert near.get_or_make(key, never)[1] == "shared hit"
    assert near.get_or_make(key, never)[1] == "hit"
    assert ArtifactStore(tmp_path / "near").get_or_make(key, never)[0].read("plan") == b"1"


def test_threads_that_miss_together_make_once(store: ArtifactStore, key: ArtifactKey) -> None:
    outcomes, made = [], []

    def make() -> Made:
        made.append(1)
        threading.Event().wait(0.2)
        return Made({"plan": b"1"})

    threads = [threading.Thread(target=lambda: outcomes.append(store.get_or_make(key, make)[1])) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1
    assert sorted(outcomes) == ["made", "waited", "waited", "waited"]


def test_eight_processes_that_miss_together_make_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", RACE, str(tmp_path / "store"), str(log)]
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert result.stdout.strip() == str([0] * 8)
    assert log.read_text() == "made\n"
    assert list((tmp_path / "store" / "locks").iterdir()) == []


def test_a_refusal_is_remembered_and_never_served(store: ArtifactStore, key: ArtifactKey) -> None:
    def refuse() -> Made:
        raise CompileError("internal error 70\nfull log")

    with pytest.raises(CompileError):
        store.get_or_make(key, refuse)
    assert store.get(key) is None
    with pytest.raises(CompileError, match=r"error 70\nfull log\n.*in 24\.0 h.*clear --failures"):
        store.get_or_make(key, never)
    assert [failure.signature for failure in store.failures()] == ["CompileError: internal error 70"]
    assert store.clear_failures() == [key.digest]
    assert store.get_or_make(key, lambda: Made({}))[1] == "made"


def test_an_expired_refusal_is_tried_again(tmp_path: Path, key: ArtifactKey) -> None:
    store = ArtifactStore(tmp_path, failure_lifetime_s=0)

    def refuse() -> Made:
        raise CompileError("no")

    with pytest.raises(CompileError):
        store.get_or_make(key, refuse)
    assert store.get_or_make(key, lambda: Made({}))[1] == "made"


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, MemoryError, ValueError])
def test_an_interrupt_or_an_error_of_ours_is_not_remembered(
    store: ArtifactStore, key: ArtifactKey, error: type[BaseException]
) -> None:
    def stop() -> Made:
        raise error

    with pytest.raises(error):
        store.get_or_make(key, stop)
    assert store.failures() == []
    assert [path for path in store.local.root.rglob("*") if path.is_file()] == []
    assert store.get_or_make(key, lambda: Made({}))[1] == "made"


def test_a_required_entry_that_is_missing_is_explained(store: ArtifactStore, key: ArtifactKey) -> None:
    store.put(key, {})
    assert store.require(key).digest == key.digest
    with pytest.raises(ArtifactError, match=r"no stored plan.*sizes"):
        store.require(ArtifactKey("plan", {**key.parts, "sizes": [8]}, key.texts))


def test_entries_are_listed_last_used_first_and_removed_by_kind(store: ArtifactStore) -> None:
    keys = [ArtifactKey(kind, {"n": number}) for number, kind in enumerate(["plan", "program", "plan"])]
    for number, key in enumerate(keys):
        directory = store.put(key, {"x": bytes(number)}).directory
        assert directory is not None
        os.utime(directory / "manifest.json", (number, number))
    assert [manifest.parts["n"] for manifest, _ in store.entries()] == [2, 1, 0]
    assert [manifest.parts["n"] for manifest, _ in store.entries("plan")] == [2, 0]
    assert store.verify() == []
    assert [manifest.parts["n"] for manifest, _ in store.entries()] == [2, 1, 0]
    assert store.get(keys[0]) is not None
    assert [manifest.parts["n"] for manifest, _ in store.entries()] == [0, 2, 1]
    assert store.clear(kind="plan", unused_for_s=3600) == [keys[2].digest]
    assert store.clear(kind="plan") == [keys[0].digest]
    assert [manifest.parts["n"] for manifest, _ in store.entries()] == [1]


def test_nothing_is_logged_when_all_is_well(
    store: ArtifactStore, key: ArtifactKey, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="deepinfer_neuron.store"):
        store.get_or_make(key, lambda: Made({"plan": b"1"}))
        store.get_or_make(key, never)
    assert caplog.records == []
