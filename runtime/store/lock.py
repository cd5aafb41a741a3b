"""At most one process makes a key, as long as locks work; a store is right without them.

A lock is a file that names its owner. It is written under a name of its own and then hard-linked to the lock's, which
is atomic on local and on network file systems and never shows a lock without its owner. Two makers at once (a file
system without hard links, a stolen lock whose owner lives in another process namespace) cost time only: entries are
published by one rename.
"""

from __future__ import annotations

import fcntl
import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ...errors import CompileCancelledError
from .owner import Owner

LockOutcome = Literal["free", "waited", "unlocked"]

logger = logging.getLogger("deepinfer_neuron.store")


@dataclass(frozen=True)
class Patience:
    """How long to wait for others, in seconds.

    Attributes:
        wait_s: for a lock; then one goes on without.
        message_after_s: until a message says who is waited for, and between two of them four times as long.
        abandoned_after_s: age of a lock of another host, whose owner cannot be looked up, that counts as abandoned.
        poll_s: between two looks.
    """

    wait_s: float = 3600.0
    message_after_s: float = 5.0
    abandoned_after_s: float = 4 * 3600.0
    poll_s: float = 0.05


@contextmanager
def key_lock(
    path: Path, claim: Path, patience: Patience, purpose: str, cancelled: threading.Event | None = None
) -> Iterator[LockOutcome]:
    """Hold the lock ``path`` for the block. ``claim`` is a name on its file system that nobody else uses.

    Yields "free" if it was free, "waited" if somebody else had it first, and "unlocked" if it cannot be had: the wait
    was too long, or the store cannot be written. ``purpose`` is what messages say is being made.

    Raises:
        CompileCancelledError: ``cancelled`` was set while it waited for somebody else.
    """
    try:
        yield _try_to_acquire(path, claim, patience, purpose, cancelled or threading.Event())
    finally:
        with suppress(OSError):
            if path.samefile(claim):
                path.unlink()
        with suppress(OSError):
            claim.unlink()


def remove_stale(path: Path, abandoned_after_s: float) -> bool:
    """Remove a lock that its owner left behind; False if it may still be in use."""
    seen = _read(path)
    if seen is None or not _is_stale(seen, path, time.time(), abandoned_after_s):
        return False
    return _take_away(path, seen)


def _try_to_acquire(
    path: Path, claim: Path, patience: Patience, purpose: str, cancelled: threading.Event
) -> LockOutcome:
    try:
        return _acquire(path, claim, patience, purpose, cancelled)
    except OSError as error:
        logger.debug("no lock for %s: %s", purpose, error)
        return "unlocked"


def _acquire(path: Path, claim: Path, patience: Patience, purpose: str, cancelled: threading.Event) -> LockOutcome:
    path.parent.mkdir(parents=True, exist_ok=True)
    claim.write_text(Owner.this_process().to_text())
    start = time.monotonic()
    next_message = patience.message_after_s
    outcome: LockOutcome = "free"
    while not _link(claim, path):
        seen = _read(path)
        waited = time.monotonic() - start
        if seen is None:
            continue
        if _is_stale(seen, path, _now(claim), patience.abandoned_after_s):
            logger.info("taking over the lock of %s from %s, which is gone", purpose, _name(seen))
            _take_away(path, seen)
        elif waited >= patience.wait_s:
            logger.warning("waited %.0f s for %s to make %s; going on without it", waited, _name(seen), purpose)
            return "unlocked"
        else:
            if waited >= next_message:
                logger.warning("waiting for %s, which makes %s (%.0f s)", _name(seen), purpose, waited)
                next_message = 4 * waited
            if cancelled.wait(patience.poll_s):
                raise CompileCancelledError(f"cancelled while {_name(seen)} made {purpose}")
            outcome = "waited"
    return outcome


def _link(claim: Path, path: Path) -> bool:
    try:
        path.hardlink_to(claim)
    except FileExistsError:
        # A network file system may repeat a request that had succeeded: the number of links tells.
        return claim.stat().st_nlink == 2
    return True


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def _now(claim: Path) -> float:
    """The time by the clock of the file system, which is the one that stamps locks."""
    claim.touch()
    return claim.stat().st_mtime


def _is_stale(seen: str, path: Path, now: float, abandoned_after_s: float) -> bool:
    owner = Owner.from_text(seen)
    if owner is not None and owner.is_here:
        return owner.is_dead
    try:
        return now - path.stat().st_mtime > abandoned_after_s
    except FileNotFoundError:
        return False


def _take_away(path: Path, seen: str) -> bool:
    """Remove the lock that was ``seen``, unless it has become another one meanwhile."""
    with _alone_in(path.parent):
        if _read(path) != seen:
            return False
        path.unlink(missing_ok=True)
        return True


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """Of all that take stale locks away, only this one does, where the file system knows such locks.

    Without it, somebody who saw the stale lock could remove the lock of who was faster. The kernel lets go when a
    process ends, so this lock is never stale.
    """
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _name(seen: str) -> str:
    return str(Owner.from_text(seen) or "an unknown process")
