"""Processes that take Ctrl-C wherever the tests are started: shells have it ignored in what they run beside them."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Sequence
from typing import Any


def start_interruptible(command: Sequence[str], **options: Any) -> subprocess.Popen[str]:
    """Start a command in a session of its own, with text pipes as ``options`` ask for."""
    return subprocess.Popen(command, text=True, start_new_session=True, preexec_fn=_take_interrupts, **options)


def _take_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_DFL)
