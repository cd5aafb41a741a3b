"""The processes of one process group, as Linux shows them in ``/proc``."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

_PROC = Path("/proc")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_GONE_AFTER_S = 10.0


def living_members(group: int) -> list[int]:
    """Ids of the processes of a group that have not ended; those that only wait to be reaped have."""
    return [process for process, state in _members(group) if state not in "ZX"]


def resident_bytes(group: int) -> int:
    """Memory that the processes of a group hold, in bytes; pages that several of them share count for each."""
    total = 0
    for process, _ in _members(group):
        with suppress(OSError):
            total += int((_PROC / str(process) / "statm").read_text().split()[1]) * _PAGE_BYTES
    return total


def kill_group(group: int) -> None:
    """Kill every process of a group and wait until all have ended.

    The leader must not be reaped yet: its id, which names the group, could belong to someone else otherwise.
    """
    end = time.monotonic() + _GONE_AFTER_S
    while True:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        if not living_members(group) or time.monotonic() > end:
            return
        time.sleep(0.01)


def _members(group: int) -> Iterator[tuple[int, str]]:
    """Id and state of each process of a group."""
    for directory in _PROC.iterdir():
        if directory.name.isdecimal():
            with suppress(OSError):
                # The name in parentheses may hold anything, so the fields are counted from its end.
                fields = (directory / "stat").read_text(errors="replace").rpartition(")")[2].split()
                if int(fields[2]) == group:
                    yield int(directory.name), fields[0]
