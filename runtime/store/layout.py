"""Where things are in a store. Every path follows from the store's own, so a store can be moved or mounted anywhere."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .owner import Owner

_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoreLayout:
    """The paths of the store in ``root``."""

    root: Path

    @property
    def failures(self) -> Path:
        """Records of compilers that refused, by digest."""
        return self.root / "failures"

    @property
    def locks(self) -> Path:
        """Locks of the keys that are being made."""
        return self.root / "locks"

    @property
    def quarantine(self) -> Path:
        """Damaged entries, for whoever looks for the cause."""
        return self.root / "quarantine"

    def entry(self, digest: str) -> Path:
        """The directory of an entry, two levels down so that no directory grows long."""
        return self.root / "entries" / digest[:2] / digest[2:4] / digest

    def failure(self, digest: str) -> Path:
        """The record of a failure."""
        return self.failures / f"{digest}.json"

    def failure_files(self, digest: str) -> Path:
        """The directory of what was kept of a failure besides its record."""
        return self.failures / digest

    def lock(self, digest: str) -> Path:
        """The lock of a key."""
        return self.locks / f"{digest}.lock"

    def new_stage(self) -> Path:
        """A name that nobody else uses, on the file system of the entries."""
        owner = Owner.this_process()
        return self.root / f".tmp.{owner.host}.{owner.pid}.{uuid.uuid4().hex}"

    def stages(self) -> Iterator[tuple[Path, str, int]]:
        """Everything under a name from ``new_stage``, with the host and process that made it."""
        for path in self.root.glob(".tmp.*"):
            host, _, rest = path.name.removeprefix(".tmp.").rpartition(".")[0].rpartition(".")
            if rest.isdecimal():
                yield path, host, int(rest)

    def digests(self) -> list[str]:
        """The digests of all entries, in order."""
        return sorted(path.name for path in self.root.glob("entries/??/??/*") if is_digest(path.name))


def is_digest(text: str) -> bool:
    """Whether ``text`` is the name of an entry."""
    return _DIGEST.fullmatch(text) is not None
