"""One thing in a store: its manifest, and files that are what the manifest says."""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ...errors import ArtifactError
from ..processor import usable_processors
from .manifest import MANIFEST, FileRecord, Manifest

LARGE = 64 << 20
"""Files above this many bytes are verified in place and left on disk; smaller ones are kept in memory."""

_WORTH_THREADS = 8 << 20


@dataclass(frozen=True)
class StoredEntry:
    """A verified entry.

    Attributes:
        manifest: what it holds.
        directory: where it is stored; None if the store could not keep it.
        contents: every file, as its bytes or, when it is large, as its path.
    """

    manifest: Manifest
    directory: Path | None
    contents: Mapping[str, bytes | Path]

    @property
    def digest(self) -> str:
        """The digest of its key."""
        return self.manifest.digest

    def read(self, name: str) -> bytes:
        """The verified bytes of a file.

        Raises:
            ArtifactError: there is no such file, or a large one changed since it was verified.
        """
        content = self._content(name)
        if isinstance(content, bytes):
            return content
        data = content.read_bytes()
        if hashlib.sha256(data).hexdigest() != self.manifest.files[name].sha256:
            raise ArtifactError(f"{content} changed after it was verified; look the entry up again")
        return data

    def path(self, name: str) -> Path:
        """The path of a file, for mapping it into memory. Its content was verified when the entry was looked up.

        Raises:
            ArtifactError: there is no such file, or it is in memory only because the store could not keep it.
        """
        content = self._content(name)
        if isinstance(content, Path):
            return content
        if self.directory is None:
            raise ArtifactError(f"{name} of entry {self.digest} could not be stored and has no path: use read")
        return self.directory / name

    def _content(self, name: str) -> bytes | Path:
        if name not in self.contents:
            raise ArtifactError(f"entry {self.digest} has no file {name!r}: it has {sorted(self.contents)}")
        return self.contents[name]


def load_manifest(directory: Path, digest: str) -> Manifest:
    """The manifest of an entry, which must belong to the key ``digest``.

    Raises:
        FileNotFoundError: there is no such entry.
        ArtifactError: the manifest is damaged, or is that of another key.
    """
    manifest = Manifest.from_bytes((directory / MANIFEST).read_bytes())
    if manifest.digest != digest:
        raise ArtifactError(f"the manifest belongs to {manifest.digest}")
    return manifest


def load_entry(directory: Path, digest: str) -> StoredEntry:
    """Read and verify a whole entry; several large files are verified by several threads.

    Raises:
        FileNotFoundError: there is no such entry.
        ArtifactError: a file is damaged or missing; the message names it.
    """
    manifest = load_manifest(directory, digest)
    names = list(manifest.files)

    def load(name: str) -> bytes | Path:
        return _load_file(directory / name, manifest.files[name])

    if len(names) > 1 and manifest.size > _WORTH_THREADS:
        with ThreadPoolExecutor(max_workers=usable_processors()) as pool:
            contents = list(pool.map(load, names))
    else:
        contents = list(map(load, names))
    return StoredEntry(manifest, directory, dict(zip(names, contents, strict=True)))


def _load_file(path: Path, record: FileRecord) -> bytes | Path:
    try:
        found = path.lstat()
    except FileNotFoundError as error:
        raise ArtifactError(f"{path.name} is missing") from error
    if not stat.S_ISREG(found.st_mode):
        raise ArtifactError(f"{path.name} is a link or a directory instead of a file")
    if found.st_size != record.size:
        raise ArtifactError(f"{path.name} is {found.st_size} bytes long instead of {record.size}")
    with path.open("rb") as file:
        if record.size > LARGE:
            content, sha256 = path, hashlib.file_digest(file, "sha256").hexdigest()
        else:
            content = file.read()
            sha256 = hashlib.sha256(content).hexdigest()
    if sha256 != record.sha256:
        raise ArtifactError(f"{path.name} has sha256 {sha256} instead of {record.sha256}")
    return content
