"""One store on one file system: entries go in whole, come out verified, and damaged ones are put aside."""

from __future__ import annotations

import errno
import logging
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ...errors import ArtifactError
from .entry import StoredEntry, load_entry, load_manifest
from .eviction import DiskUsage, touch, usage
from .key import ArtifactKey
from .layout import StoreLayout
from .manifest import MANIFEST, Manifest
from .publish import Source, new_stage, publish, write_entry, write_file

logger = logging.getLogger("deepinfer_neuron.store")

_CANNOT_WRITE = {errno.EROFS: "read-only", errno.EACCES: "not writable", errno.EPERM: "not writable"}


class StoreDirectory:
    """The entries below ``root``, which need not exist yet."""

    def __init__(self, root: Path):
        self.root = root
        self.layout = StoreLayout(root)
        self._reported: set[str] = set()

    def load(self, digest: str) -> StoredEntry | None:
        """The verified entry of a key. Damage is put aside, logged once, and a miss."""
        directory = self.layout.entry(digest)
        try:
            return load_entry(directory, digest)
        except FileNotFoundError:
            return None
        except ArtifactError as error:
            if directory.exists():
                self._put_aside(digest, str(error))
        except OSError as error:
            self._report(digest, f"cannot be read and counts as missing: {error}")
        return None

    def use(self, digest: str) -> StoredEntry | None:
        """``load`` an entry and stamp it as used now."""
        entry = self.load(digest)
        if entry is not None:
            touch(self.layout.entry(digest))
        return entry

    def write(self, key: ArtifactKey, files: Mapping[str, Source], metadata: Mapping[str, Any]) -> StoredEntry | None:
        """Publish an entry and return it as it is on disk; that of another process if it was first.

        Raises:
            ArtifactError: a file has an unsafe name, or the metadata is no JSON.
            OSError: the store cannot be written.
        """
        with new_stage(self.layout) as stage:
            write_entry(stage, key, files, metadata)
            return self.publish(stage, key.digest)

    def copy(self, entry: StoredEntry) -> StoredEntry | None:
        """Publish an entry of another store here, unchanged; raises OSError as ``write``."""
        with new_stage(self.layout) as stage:
            for name, content in entry.contents.items():
                write_file(stage / name, content)
            write_file(stage / MANIFEST, entry.manifest.to_bytes())
            return self.publish(stage, entry.digest)

    def publish(self, stage: Path, digest: str) -> StoredEntry | None:
        """Move a stage to its place and load what is there then; a damaged entry that was there makes room."""
        destination = self.layout.entry(digest)
        if not publish(stage, destination):
            winner = self.load(digest)
            if winner is not None or not publish(stage, destination):
                return winner
        return self.load(digest)

    def manifests(self) -> Iterator[tuple[Manifest, DiskUsage]]:
        """What every readable entry is, without verifying its files."""
        for digest in self.layout.digests():
            try:
                manifest = load_manifest(self.layout.entry(digest), digest)
            except (ArtifactError, OSError):
                continue
            if used := usage(self.layout, digest):
                yield manifest, used

    def _put_aside(self, digest: str, damage: str) -> None:
        grave = self.layout.quarantine / f"{digest}.{uuid.uuid4().hex[:8]}"
        try:
            grave.parent.mkdir(parents=True, exist_ok=True)
            self.layout.entry(digest).rename(grave)
        except FileNotFoundError:
            return
        except OSError as error:
            self._report(digest, f"is damaged ({damage}) and stays where it is: {_reason(error)}")
        else:
            self._report(digest, f"is damaged ({damage}) and was moved to {self.layout.quarantine.name}/{grave.name}")

    def _report(self, digest: str, what: str) -> None:
        if digest not in self._reported:
            self._reported.add(digest)
            logger.warning("%s: entry %s %s", self.root, digest, what)


def _reason(error: OSError) -> str:
    return f"the store is {_CANNOT_WRITE[error.errno]}" if error.errno in _CANNOT_WRITE else str(error)
