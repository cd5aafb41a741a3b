"""Which process something belongs to, and whether that process still runs."""

from __future__ import annotations

import json
import os
import socket
from dataclasses import asdict, dataclass
from pathlib import Path

_STATE, _START = 0, 19
"""Places in /proc/PID/stat after the command's name: see proc_pid_stat(5)."""


@dataclass(frozen=True)
class Owner:
    """A process. Process numbers are used again, so ``start`` (boot and clock ticks since) tells two apart."""

    host: str
    pid: int
    start: str

    @classmethod
    def this_process(cls) -> Owner:
        """The process that asks."""
        return cls(socket.gethostname(), os.getpid(), _start(os.getpid()) or "")

    @classmethod
    def from_text(cls, text: str) -> Owner | None:
        """The owner that ``to_text`` wrote, or None."""
        try:
            owner = cls(**json.loads(text))
        except (TypeError, ValueError):
            return None
        return owner if isinstance(owner.pid, int) else None

    def to_text(self) -> str:
        """One line of JSON."""
        return json.dumps(asdict(self))

    @property
    def is_here(self) -> bool:
        """Whether it runs, or ran, on this host: only then can its death be told."""
        return self.host == socket.gethostname()

    @property
    def is_dead(self) -> bool:
        """Whether it is known to have ended."""
        return self.is_here and _start(self.pid) != self.start

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}"


def process_exists(pid: int) -> bool:
    """Whether a process of that number runs on this host."""
    return _start(pid) is not None


def _start(pid: int) -> str | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None
    return None if fields[_STATE] == "Z" else f"{boot}:{fields[_START]}"
