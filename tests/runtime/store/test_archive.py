from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.store import entry as entry_module
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.store import ArtifactStore

Members = list[tuple[tarfile.TarInfo, bytes]]


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE) -> tuple[tarfile.TarInfo, bytes]:
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, len(content), "/etc/passwd"
    return info, content


def read(archive: Path) -> Members:
    with tarfile.open(archive) as tar:
        files = [(info, tar.extractfile(info)) for info in tar.getmembers()]
        return [(info, file.read()) for info, file in files if file]


def write(archive: Path, members: Members) -> None:
    with tarfile.open(archive, "w") as tar:
        for info, content in members:
            tar.addfile(info, io.BytesIO(content))


@pytest.fixture
def archive(store: ArtifactStore, key: ArtifactKey, tmp_path: Path) -> Path:
    store.put(key, {"plan": b"123", "weights": b"x" * 50})
    assert store.export(tmp_path / "entries.tar") == [key.digest]
    return tmp_path / "entries.tar"


def test_entries_travel_in_a_file(
    store: ArtifactStore, key: ArtifactKey, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry_module, "LARGE", 10)
    other = ArtifactKey("program", {})
    store.put(key, {"plan": b"123", "weights": b"x" * 50}, {"n": 1})
    store.put(other, {})
    archive = tmp_path / "entries.tar"
    assert set(store.export(archive)) == {key.digest, other.digest}
    there = ArtifactStore(tmp_path / "there")
    assert set(there.import_(archive)) == {key.digest, other.digest}
    entry = there.get(key)
    assert entry is not None
    assert (entry.read("weights"), entry.manifest.metadata) == (b"x" * 50, {"n": 1})
    assert there.get(other) is not None
    assert set(there.import_(archive)) == {key.digest, other.digest}


def test_only_a_kind_is_exported_and_a_damaged_entry_is_left_out(
    store: ArtifactStore, key: ArtifactKey, tmp_path: Path
) -> None:
    store.put(ArtifactKey("program", {}), {})
    directory = store.put(key, {"plan": b"123"}).directory
    assert directory is not None
    (directory / "plan").write_bytes(b"124")
    assert store.export(tmp_path / "entries.tar", kind="plan") == []
    assert read(tmp_path / "entries.tar") == []
    assert sorted(path.name for path in tmp_path.iterdir()) == ["entries.tar", "store"]


MANGLE: dict[str, Callable[[Members, str], Members]] = {
    "absolute path": lambda members, digest: [member("/etc/x"), *members],
    "parent path": lambda members, digest: [*members, member(f"{digest}/../../x")],
    "deeper path": lambda members, digest: [*members, member(f"{digest}/a/b")],
    "no digest": lambda members, digest: [member("x/manifest.json"), *members],
    "link": lambda members, digest: [members[0], member(f"{digest}/plan", kind=tarfile.SYMTYPE)],
    "hard link": lambda members, digest: [members[0], member(f"{digest}/plan", kind=tarfile.LNKTYPE)],
    "device": lambda members, digest: [members[0], member(f"{digest}/plan", kind=tarfile.CHRTYPE)],
    "directory": lambda members, digest: [member(digest, kind=tarfile.DIRTYPE), *members],
    "unlisted file": lambda members, digest: [*members, member(f"{digest}/other")],
    "file twice": lambda members, digest: [*members, members[-1]],
    "other size": lambda members, digest: [members[0], member(f"{digest}/plan", b"1234")],
    "other content": lambda members, digest: [*members[:-1], member(members[-1][0].name, b"y" * 50)],
    "missing file": lambda members, digest: members[:-1],
    "no manifest": lambda members, digest: members[1:],
    "other manifest": lambda members, digest: [member(f"{'0' * 64}/manifest.json", members[0][1])],
    "damaged manifest": lambda members, digest: [member(members[0][0].name, members[0][1][1:]), *members[1:]],
}


@pytest.mark.parametrize("mangle", MANGLE.values(), ids=MANGLE.keys())
def test_a_hostile_or_damaged_archive_is_refused(
    archive: Path, key: ArtifactKey, tmp_path: Path, mangle: Callable[[Members, str], Members]
) -> None:
    write(archive, mangle(read(archive), key.digest))
    there = ArtifactStore(tmp_path / "there")
    with pytest.raises(ArtifactError):
        there.import_(archive)
    assert there.get(key) is None
    assert [path for path in (tmp_path / "there").rglob("*") if path.is_file()] == []


def test_a_truncated_archive_or_another_file_is_refused(archive: Path, key: ArtifactKey, tmp_path: Path) -> None:
    data = archive.read_bytes()
    there = ArtifactStore(tmp_path / "there")
    for length in 1, 100, 600, 1100, 2000:
        archive.write_bytes(data[:length])
        with pytest.raises(ArtifactError):
            there.import_(archive)
    assert there.get(key) is None
