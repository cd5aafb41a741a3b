"""What leaves a store: entries unused for longest, and what killed processes left behind."""

from __future__ import annotations

import os
import shutil
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

from .layout import StoreLayout
from .lock import remove_stale
from .manifest import MANIFEST
from .owner import Owner, process_exists

_ABANDONED_AFTER_S = 24 * 3600.0


@dataclass(frozen=True)
class Limits:
    """How large a store may grow, and what is never evicted.

    Attributes:
        max_bytes: of all entries together.
        keep_newest: that many entries used last stay, however large.
        min_age_s: an entry used more recently stays.
        keep_quarantined: damaged entries that are kept for inspection.
    """

    max_bytes: int = 64 << 30
    keep_newest: int = 16
    min_age_s: float = 3600.0
    keep_quarantined: int = 8


@dataclass(frozen=True)
class DiskUsage:
    """Bytes on disk of an entry, and when it was last used, in seconds since 1970."""

    digest: str
    size: int
    last_used: float


def touch(directory: Path) -> None:
    """Stamp an entry as used now. The stamp is a file's modification time, which mounts without atime keep too."""
    with suppress(OSError):
        os.utime(directory / MANIFEST)


def usage(layout: StoreLayout, digest: str) -> DiskUsage | None:
    """Size and last use; None if the entry is gone."""
    directory = layout.entry(digest)
    try:
        size = sum(path.lstat().st_size for path in directory.iterdir())
        return DiskUsage(digest, size, (directory / MANIFEST).stat().st_mtime)
    except OSError:
        return None


def evict(layout: StoreLayout, limits: Limits) -> list[str]:
    """Remove the entries used longest ago until the rest fits; returns their digests."""
    now = time.time()
    used = [_stamped(layout, one, now) for digest in layout.digests() if (one := usage(layout, digest))]
    excess = sum(one.size for one in used) - limits.max_bytes
    if excess <= 0:
        return []
    removed = []
    oldest_first = sorted(used, key=lambda one: one.last_used)
    for one in oldest_first[: max(len(used) - limits.keep_newest, 0)]:
        if excess <= 0 or now - one.last_used < limits.min_age_s:
            break
        if remove_entry(layout, one.digest):
            removed.append(one.digest)
            excess -= one.size
    return removed


def remove_entry(layout: StoreLayout, digest: str) -> bool:
    """Remove an entry at once for whoever looks for it; False if it is gone already or cannot be removed."""
    grave = layout.new_stage()
    try:
        layout.entry(digest).rename(grave)
    except OSError:
        return False
    shutil.rmtree(grave, ignore_errors=True)
    return True


def sweep(layout: StoreLayout, limits: Limits) -> None:
    """Remove what nobody will finish: stages and locks of dead processes, and old entries of the quarantine."""
    for stage, host, pid in layout.stages():
        if _is_abandoned(stage, host, pid):
            _remove(stage)
    for lock in layout.locks.glob("*"):
        with suppress(OSError):
            remove_stale(lock, _ABANDONED_AFTER_S)
    quarantined = sorted(layout.quarantine.glob("*"), key=_modified, reverse=True)
    for directory in quarantined[limits.keep_quarantined :]:
        shutil.rmtree(directory, ignore_errors=True)


def _stamped(layout: StoreLayout, used: DiskUsage, now: float) -> DiskUsage:
    """A use in the future was stamped before the clock was set back: it is stamped anew, so that it ages again."""
    if used.last_used <= now:
        return used
    touch(layout.entry(used.digest))
    return replace(used, last_used=now)


def _is_abandoned(stage: Path, host: str, pid: int) -> bool:
    if host == Owner.this_process().host:
        return not process_exists(pid)
    return time.time() - _modified(stage) > _ABANDONED_AFTER_S


def _remove(stage: Path) -> None:
    if stage.is_dir():
        shutil.rmtree(stage, ignore_errors=True)
    else:
        with suppress(OSError):
            stage.unlink()


def _modified(path: Path) -> float:
    with suppress(OSError):
        return path.stat().st_mtime
    return 0.0
