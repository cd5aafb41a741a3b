"""Whatever happens to the files of an entry, it is served right or not at all."""

from __future__ import annotations

import logging
import random
import shutil
from pathlib import Path

import pytest
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.store.directory import StoreDirectory
from deepinfer_neuron.runtime.store.entry import load_entry
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.manifest import MANIFEST
from deepinfer_neuron.runtime.store.store import ArtifactStore, Made

FILES = {"plan": b"seven bits", "program": b"x"}


@pytest.fixture
def stored(store: ArtifactStore, key: ArtifactKey) -> Path:
    directory = store.put(key, FILES).directory
    assert directory is not None
    return directory


def assert_recovers(store: ArtifactStore, key: ArtifactKey) -> None:
    """The damaged entry is a miss, is put aside, and a new one takes its place."""
    entry, outcome = store.get_or_make(key, lambda: Made(FILES))
    assert outcome == "made"
    assert entry.read("plan") == FILES["plan"]
    assert len(list(store.local.layout.quarantine.iterdir())) == 1
    assert store.get_or_make(key, lambda: Made({}))[1] == "hit"


def flip(path: Path, bit: int) -> None:
    with path.open("r+b") as file:
        file.seek(bit // 8)
        (old,) = file.read(1)
        file.seek(bit // 8)
        file.write(bytes([old ^ 1 << bit % 8]))


def test_every_flipped_bit_of_a_small_entry_is_noticed(stored: Path, key: ArtifactKey) -> None:
    checked = 0
    for path in sorted(stored.iterdir()):
        for bit in range(8 * path.stat().st_size):
            flip(path, bit)
            with pytest.raises(ArtifactError):
                load_entry(stored, key.digest)
            flip(path, bit)
            checked += 1
    assert checked > 8 * sum(map(len, FILES.values()))
    assert load_entry(stored, key.digest).read("plan") == FILES["plan"]


@pytest.mark.slow
def test_random_flipped_bits_of_a_large_entry_are_noticed(store: ArtifactStore, key: ArtifactKey) -> None:
    chance = random.Random(0)
    directory = store.put(key, {"weights": chance.randbytes(5 << 20), "plan": chance.randbytes(1 << 20)}).directory
    assert directory is not None
    for _ in range(500):
        path = chance.choice(sorted(directory.iterdir()))
        bit = chance.randrange(8 * path.stat().st_size)
        flip(path, bit)
        with pytest.raises(ArtifactError):
            load_entry(directory, key.digest)
        flip(path, bit)
    assert store.verify() == []


@pytest.mark.parametrize("name", ["plan", "program", "key-graph.txt", MANIFEST])
def test_a_flipped_bit_is_put_aside_and_made_again(
    store: ArtifactStore, key: ArtifactKey, stored: Path, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    flip(stored / name, 3)
    with caplog.at_level(logging.WARNING, logger="deepinfer_neuron.store"):
        assert_recovers(store, key)
    (message,) = caplog.messages
    assert key.digest in message
    assert "moved to quarantine/" in message


@pytest.mark.parametrize("name", ["plan", "key-graph.txt", MANIFEST])
@pytest.mark.parametrize("length", [0, 5, 9])
def test_a_truncated_file_is_noticed(
    store: ArtifactStore, key: ArtifactKey, stored: Path, name: str, length: int
) -> None:
    (stored / name).write_bytes((stored / name).read_bytes()[:length])
    assert_recovers(store, key)


def test_a_missing_file_is_noticed(store: ArtifactStore, key: ArtifactKey, stored: Path) -> None:
    (stored / "plan").unlink()
    assert_recovers(store, key)


def test_a_missing_manifest_does_not_block_the_key(store: ArtifactStore, key: ArtifactKey, stored: Path) -> None:
    (stored / MANIFEST).unlink()
    entry, outcome = store.get_or_make(key, lambda: Made(FILES))
    assert (outcome, entry.read("plan")) == ("made", FILES["plan"])


def test_links_and_directories_are_not_followed(store: ArtifactStore, key: ArtifactKey, stored: Path) -> None:
    (stored / "plan").rename(stored.parent / "plan")
    (stored / "plan").symlink_to(stored.parent / "plan")
    assert store.get(key) is None
    directory = store.put(key, FILES).directory
    assert directory is not None
    (directory / "plan").unlink()
    (directory / "plan").mkdir()
    assert store.get(key) is None


def test_the_entry_of_another_key_is_not_served(store: ArtifactStore, key: ArtifactKey, stored: Path) -> None:
    other = ArtifactKey("plan", {"n": 1})
    wrong = store.local.layout.entry(other.digest)
    wrong.parent.mkdir(parents=True)
    shutil.copytree(stored, wrong)
    assert store.get(other) is None
    assert store.get(key) is not None


def test_verify_puts_all_damaged_entries_aside(store: ArtifactStore, key: ArtifactKey, stored: Path) -> None:
    good = store.put(ArtifactKey("plan", {}), FILES)
    flip(stored / "plan", 0)
    assert store.verify() == [key.digest]
    assert [manifest.digest for manifest, _ in store.entries()] == [good.digest]


def test_a_damaged_entry_of_a_shared_store_is_a_miss(
    tmp_path: Path, store: ArtifactStore, key: ArtifactKey, stored: Path
) -> None:
    flip(stored / "plan", 0)
    near = ArtifactStore(tmp_path / "near", shared=[store.local.root])
    assert near.get_or_make(key, lambda: Made(FILES))[1] == "made"


def test_damage_that_cannot_be_put_aside_is_a_miss_and_said_once(
    store: ArtifactStore,
    key: ArtifactKey,
    stored: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    flip(stored / "plan", 0)
    monkeypatch.setattr(Path, "rename", refuse)
    with caplog.at_level(logging.WARNING, logger="deepinfer_neuron.store"):
        directory = StoreDirectory(store.local.root)
        assert directory.load(key.digest) is None
        assert directory.load(key.digest) is None
    (message,) = caplog.messages
    assert "stays where it is: the store is not writable" in message
