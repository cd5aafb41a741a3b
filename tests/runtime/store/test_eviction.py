from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

from deepinfer_neuron.runtime.store.eviction import Limits
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.layout import StoreLayout
from deepinfer_neuron.runtime.store.store import ArtifactStore

SIZE = 10_000


def filled(root: Path, count: int) -> list[str]:
    """Entries of ``SIZE`` bytes and a little, the first one unused for longest; returns their digests."""
    store = ArtifactStore(root)
    digests = []
    for number in range(count):
        entry = store.put(ArtifactKey("plan", {"n": number}), {"plan": bytes(SIZE)})
        assert entry.directory is not None
        used = time.time() - 1000 * (count - number)
        os.utime(entry.directory / "manifest.json", (used, used))
        digests.append(entry.digest)
    return digests


def test_those_unused_for_longest_leave_until_the_rest_fits(tmp_path: Path) -> None:
    digests = filled(tmp_path, 6)
    store = ArtifactStore(tmp_path, limits=Limits(int(3.5 * SIZE), keep_newest=0, min_age_s=0))
    assert store.get(ArtifactKey("plan", {"n": 1})) is not None
    assert store.evict() == [digests[0], digests[2], digests[3]]
    assert {used.digest for _, used in store.entries()} == {digests[1], digests[4], digests[5]}
    assert store.evict() == []


def test_the_newest_stay_however_large(tmp_path: Path) -> None:
    digests = filled(tmp_path, 5)
    assert ArtifactStore(tmp_path, limits=Limits(0, keep_newest=2, min_age_s=0)).evict() == digests[:3]


def test_the_young_stay(tmp_path: Path) -> None:
    digests = filled(tmp_path, 5)
    assert ArtifactStore(tmp_path, limits=Limits(0, keep_newest=0, min_age_s=3500)).evict() == digests[:2]


def test_a_put_evicts(tmp_path: Path) -> None:
    digests = filled(tmp_path, 3)
    store = ArtifactStore(tmp_path, limits=Limits(2 * SIZE, keep_newest=1, min_age_s=60))
    store.put(ArtifactKey("plan", {}), {})
    assert digests[0] not in store.local.layout.digests()
    assert digests[2] in store.local.layout.digests()


def test_a_reader_keeps_what_it_has_when_the_entry_leaves(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    store = ArtifactStore(tmp_path, limits=Limits(0, keep_newest=0, min_age_s=0))
    entry = store.get(ArtifactKey("plan", {"n": 0}))
    assert entry is not None
    assert len(store.evict()) == 1
    assert entry.read("plan") == bytes(SIZE)
    assert store.get(ArtifactKey("plan", {"n": 0})) is None


def test_stages_of_dead_processes_are_swept_and_others_stay(tmp_path: Path) -> None:
    dead = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True)
    mine = StoreLayout(tmp_path).new_stage()
    left = mine.with_name(mine.name.replace(f".{os.getpid()}.", f".{int(dead.stdout)}."))
    other, old = tmp_path / ".tmp.another.host.1.aaaa", tmp_path / ".tmp.another.host.2.aaaa"
    for path in mine, left, other, old:
        path.mkdir()
        (path / "plan").write_bytes(b"half")
    os.utime(old, (0, 0))
    ArtifactStore(tmp_path).evict()
    assert {path for path in (mine, left, other, old) if path.exists()} == {mine, other}


def test_the_quarantine_stays_small(tmp_path: Path) -> None:
    for number in range(5):
        directory = tmp_path / "quarantine" / str(number)
        directory.mkdir(parents=True)
        os.utime(directory, (number, number))
    ArtifactStore(tmp_path, limits=Limits(keep_quarantined=2)).evict()
    assert sorted(path.name for path in (tmp_path / "quarantine").iterdir()) == ["3", "4"]
