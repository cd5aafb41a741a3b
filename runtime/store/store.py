"""The artifact store: what was made once is found by every later process, or made again, but never wrong.

Whoever can write to a store can run code in the processes that read it, since programs are machine code: checksums
guard against damage, not against people. Give a shared store to others read-only.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from ...errors import ArtifactError, CompileError, StoreMissError
from .archive import export_entries, import_entries
from .directory import StoreDirectory
from .entry import StoredEntry
from .eviction import DiskUsage, Limits, evict, remove_entry, sweep
from .explain import differences, nearest
from .failures import (
    Failure,
    current_failure,
    failure_files,
    failures,
    forget_failure,
    keep_failure_files,
    record_failure,
    sweep_failures,
)
from .key import ArtifactKey, text_file
from .lock import Patience, key_lock
from .manifest import Manifest
from .publish import Source
from .unstored import unstored_entry

Outcome = Literal["hit", "shared hit", "waited", "made"]

logger = logging.getLogger("deepinfer_neuron.store")


@dataclass(frozen=True)
class Made:
    """What a maker returns: files by name, and JSON values for whoever reads the entry."""

    files: Mapping[str, Source]
    metadata: Mapping[str, Any] = field(default_factory=dict)


class ArtifactStore:
    """A local store, and shared ones that are asked when it has no entry. A hit in a shared one is copied.

    Looking up and putting never raise for what disks and other processes do: damage is a miss, and what cannot be
    stored is returned all the same. Safe for any number of threads and processes.

    Args:
        local: directory of the store; made when something is put.
        shared: directories of other stores, only read.
        limits: how large the local store may grow.
        patience: how long to wait for another process that makes the same.
        failure_lifetime_s: seconds for which a refused compilation is not tried again.
    """

    def __init__(
        self,
        local: Path,
        shared: Sequence[Path] = (),
        limits: Limits | None = None,
        patience: Patience | None = None,
        failure_lifetime_s: float = 24 * 3600.0,
    ):
        self.local = StoreDirectory(local)
        self.shared = [StoreDirectory(path) for path in shared]
        self._limits = limits or Limits()
        self._patience = patience or Patience()
        self._failure_lifetime_s = failure_lifetime_s
        self._has_warned = False

    def get(self, key: ArtifactKey) -> StoredEntry | None:
        """The verified entry of a key, or None."""
        return self.find(key.digest)

    def find(self, digest: str) -> StoredEntry | None:
        """The verified entry whose key has this digest, or None."""
        found = self.look_up(digest)
        return found and found[0]

    def look_up(self, digest: str) -> tuple[StoredEntry, Outcome] | None:
        """The verified entry whose key has this digest and which store had it, or None."""
        entry = self.local.use(digest)
        if entry is not None:
            return entry, "hit"
        for shared in self.shared:
            entry = shared.use(digest)
            if entry is not None:
                return self._copy(entry), "shared hit"
        return None

    def require(self, key: ArtifactKey) -> StoredEntry:
        """The verified entry of a key; raises StoreMissError that explains the miss."""
        entry = self.get(key)
        if entry is None:
            raise StoreMissError(f"no stored {key.kind} has this key: {'; '.join(self.explain(key))}")
        return entry

    def put(
        self, key: ArtifactKey, files: Mapping[str, Source], metadata: Mapping[str, Any] | None = None
    ) -> StoredEntry:
        """Store an entry; the one that is there already if another process was first.

        Raises:
            ArtifactError: a file has an unsafe name, or the key or the metadata is no JSON.
        """
        stored = None
        try:
            stored = self.local.write(key, files, metadata or {})
            self.evict()
        except OSError as error:
            self._warn(error)
        return stored or unstored_entry(key, files, metadata or {})

    def get_or_make(
        self, key: ArtifactKey, make: Callable[[], Made], cancelled: threading.Event | None = None
    ) -> tuple[StoredEntry, Outcome]:
        """The entry of a key, made by ``make`` unless it is there. Of several processes that miss, one makes it.

        Raises:
            CompileCancelledError: ``cancelled`` was set while another process was waited for.
            CompileError: from ``make``, or remembered from an earlier try that has not expired. Any other exception
                of ``make`` is passed on and not remembered.
        """
        found = self.look_up(key.digest)
        if found is not None:
            return found
        layout, purpose = self.local.layout, f"{key.kind} {key.digest[:12]}"
        with key_lock(layout.lock(key.digest), layout.new_stage(), self._patience, purpose, cancelled):
            # Whoever had the lock before may have made it between the first look and the lock.
            entry = self.local.load(key.digest)
            if entry is not None:
                return entry, "waited"
            self.refuse_known_failure(key)
            return self._make(key, make), "made"

    def refuse_known_failure(self, key: ArtifactKey) -> None:
        """Raise CompileError if making the key failed and is not tried again yet."""
        failure = current_failure(self.local.layout, key.digest)
        if failure is not None:
            hours = (failure.expires - time.time()) / 3600
            raise CompileError(
                f"{failure.log}\n({failure.where} saw this before; it is tried again in {hours:.1f} h, or after "
                "`deepinfer-neuron cache clear --failures`)"
            )

    def remember_failure(self, key: ArtifactKey, error: CompileError) -> None:
        """Have ``get_or_make`` raise ``error`` again for as long as failures last."""
        try:
            record_failure(self.local.layout, key, error, self._failure_lifetime_s)
        except OSError as refusal:
            self._warn(refusal)

    def keep_failure_files(self, digest: str, files: Mapping[str, bytes]) -> Path | None:
        """Keep files for whoever looks into a remembered failure, as long as it is remembered.

        Returns:
            Their directory, with those that were there before if there were any; None if nothing is remembered of
            that key, or the store cannot be written.
        """
        try:
            return keep_failure_files(self.local.layout, digest, files)
        except OSError as refusal:
            self._warn(refusal)
            return None

    def failure(self, digest: str) -> Failure | None:
        """What is remembered of the key with that digest."""
        return current_failure(self.local.layout, digest)

    def failure_files(self, digest: str) -> Path | None:
        """The directory that ``keep_failure_files`` made for a failure that is remembered; None if there is none."""
        return failure_files(self.local.layout, digest)

    def entries(self, kind: str | None = None) -> list[tuple[Manifest, DiskUsage]]:
        """Manifest and use of all local entries of a kind, the one used last first; files are not verified."""
        found = [one for one in self.local.manifests() if kind in (None, one[0].kind)]
        return sorted(found, key=lambda one: one[1].last_used, reverse=True)

    def manifests(self, kind: str) -> list[Manifest]:
        """Manifests of all entries of a kind, shared ones too, the youngest first; files are not verified."""
        stores = [self.local, *self.shared]
        found = {one.digest: one for store in stores for one, _ in store.manifests() if one.kind == kind}
        return sorted(found.values(), key=lambda one: one.created, reverse=True)

    def failures(self) -> list[Failure]:
        """Refused compilations that are not tried again yet."""
        return failures(self.local.layout)

    def verify(self) -> list[str]:
        """Check every file of every local entry; puts damaged entries aside and returns their digests."""
        return [digest for digest in self.local.layout.digests() if self.local.load(digest) is None]

    def clear(self, kind: str | None = None, unused_for_s: float = 0.0) -> list[str]:
        """Remove entries of a kind that were last used so long ago; returns their digests."""
        latest = time.time() - unused_for_s
        chosen = [used.digest for _, used in self.entries(kind) if unused_for_s <= 0 or used.last_used <= latest]
        self._sweep()
        return [digest for digest in chosen if remove_entry(self.local.layout, digest)]

    def clear_failures(self) -> list[str]:
        """Have all refused compilations tried again; returns their digests."""
        forgotten = [failure.digest for failure in self.failures()]
        for digest in forgotten:
            forget_failure(self.local.layout, digest)
        return forgotten

    def evict(self) -> list[str]:
        """Remove what is above the limits and what killed processes left behind; returns the entries' digests."""
        self._sweep()
        return evict(self.local.layout, self._limits)

    def export(self, archive: Path, kind: str | None = None) -> list[str]:
        """Write the local entries of a kind to a new tar file; see ``archive.export_entries``."""
        return export_entries(self.local, [used.digest for _, used in self.entries(kind)], archive)

    def import_(self, archive: Path) -> list[str]:
        """Take the entries of a tar file into the local store; see ``archive.import_entries``."""
        return import_entries(self.local, archive)

    def explain(self, key: ArtifactKey) -> list[str]:
        """Sentences on why a key has no entry: the parts in which it differs from the nearest one."""
        manifests = [manifest for manifest, _ in self.entries(key.kind)]
        if key.digest in [manifest.digest for manifest in manifests]:
            return [f"entry {key.digest} has this key"]
        return self._explain(key, manifests)

    def explain_entry(self, digest: str) -> list[str]:
        """Sentences on the parts in which the key of a local entry differs from that of the nearest other one.

        Args:
            digest: the beginning of its digest is enough.

        Raises:
            ArtifactError: no entry, or more than one, has such a digest.
        """
        found = [manifest for manifest, _ in self.entries() if manifest.digest.startswith(digest)]
        if len(found) != 1:
            raise ArtifactError(f"{len(found)} entries in {self.local.root} begin with {digest!r}: see `cache ls`")
        (manifest,) = found
        texts = {name: self.key_text(manifest, name) or "" for name in manifest.texts}
        others = [other for other, _ in self.entries(manifest.kind) if other.digest != manifest.digest]
        return self._explain(ArtifactKey(manifest.kind, manifest.parts, texts), others)

    def key_text(self, manifest: Manifest, name: str) -> str | None:
        """A text of an entry's key, as it is on disk; None if it cannot be read."""
        try:
            return (self.local.layout.entry(manifest.digest) / text_file(name)).read_text()
        except (OSError, UnicodeDecodeError):
            return None

    def _explain(self, key: ArtifactKey, manifests: Sequence[Manifest]) -> list[str]:
        closest = nearest(key, manifests)
        if closest is None:
            return [f"the store in {self.local.root} has no other entry of kind {key.kind}"]
        return [f"the nearest entry is {closest.digest[:12]}", *differences(key, closest, self.key_text)]

    def _copy(self, entry: StoredEntry) -> StoredEntry:
        try:
            return self.local.copy(entry) or entry
        except OSError as error:
            self._warn(error)
            return entry

    def _make(self, key: ArtifactKey, make: Callable[[], Made]) -> StoredEntry:
        try:
            made = make()
        except CompileError as error:
            self.remember_failure(key, error)
            raise
        return self.put(key, made.files, made.metadata)

    def _sweep(self) -> None:
        sweep(self.local.layout, self._limits)
        sweep_failures(self.local.layout)

    def _warn(self, error: OSError) -> None:
        if not self._has_warned:
            self._has_warned = True
            logger.warning("%s: nothing can be stored, so the next process makes it again: %s", self.local.root, error)
