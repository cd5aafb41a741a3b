"""One run of a compiler that may crash, hang, eat all memory or leave children behind.

Uses the standard library alone: scripts that repeat a failure carry this file.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from .process_group import kill_group, resident_bytes

RunOutcome = Literal["ok", "error", "signal", "timeout", "out of memory", "too much output", "cancelled"]

_POLL_S = 0.05


class NotStartedError(Exception):
    """A command cannot be started: it is missing, or not a program."""


@dataclass(frozen=True)
class Limits:
    """What a run may take before it is killed; None for no limit.

    Attributes:
        seconds: wall-clock time.
        memory_bytes: resident memory of all its processes together.
        output_bytes: what it may print.
    """

    seconds: float | None = None
    memory_bytes: int | None = None
    output_bytes: int | None = 64 << 20


@dataclass(frozen=True)
class ProcessResult:
    """How a run ended.

    Attributes:
        outcome: ``ok`` for exit status 0, ``error`` for another one, ``signal`` if a signal not from here ended it, or
            why it was killed from here.
        status: the exit status; the negative number of the signal that ended it, as ``subprocess`` has it.
        seconds: wall-clock time.
        output: what it printed, stdout and stderr in the order of writing; undecodable bytes are replaced.
    """

    outcome: RunOutcome
    status: int
    seconds: float
    output: str

    @property
    def ending(self) -> str:
        """How it ended, in words."""
        if self.outcome == "error":
            return f"ended with status {self.status}"
        if self.outcome == "signal":
            return f"was ended by signal {_signal_name(-self.status)}"
        if self.outcome == "ok":
            return "succeeded"
        return f"was killed after {self.seconds:.1f} s: {self.outcome}"


def supervise(
    command: Sequence[str],
    directory: Path,
    limits: Limits | None = None,
    cancel: threading.Event | None = None,
    environment: Mapping[str, str] | None = None,
) -> ProcessResult:
    """Run a command in a session of its own and end every process of its group with it, however it ends.

    Children that start a session of their own are not found; compilers have no reason to.

    Args:
        command: program and arguments.
        directory: where it runs; its output is written to ``output.txt`` there.
        limits: when to kill it; without, it may run for ever.
        cancel: kills it when set, from any thread.
        environment: its environment variables; None for those of this process.

    Raises:
        NotStartedError: the command cannot be started.
    """
    log, start = directory / "output.txt", time.monotonic()
    with log.open("wb") as output:
        try:
            process = subprocess.Popen(
                command,
                cwd=directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise NotStartedError(f"{command[0]}: {error.strerror or error}") from error
    # Not subprocess's own wait: it would reap the leader before the others of its group are killed.
    handle = os.pidfd_open(process.pid)
    reason: RunOutcome | None = None
    try:
        reason = _watch(handle, process.pid, log, limits or Limits(), cancel, start)
    finally:
        kill_group(process.pid)
        os.close(handle)
        status = process.wait()
    text = log.read_bytes().decode("utf-8", "replace")
    outcome = reason or ("ok" if status == 0 else "error" if status > 0 else "signal")
    return ProcessResult(outcome, status, time.monotonic() - start, text)


def _watch(
    handle: int, group: int, log: Path, limits: Limits, cancel: threading.Event | None, start: float
) -> RunOutcome | None:
    """Wait until the process ends, and return None, or until there is a reason to kill it."""
    poll = select.poll()
    poll.register(handle, select.POLLIN)
    while not poll.poll(1000 * _POLL_S):
        if cancel is not None and cancel.is_set():
            return "cancelled"
        if limits.seconds is not None and time.monotonic() - start > limits.seconds:
            return "timeout"
        if limits.output_bytes is not None and log.stat().st_size > limits.output_bytes:
            return "too much output"
        if limits.memory_bytes is not None and resident_bytes(group) > limits.memory_bytes:
            return "out of memory"
    return None


def _signal_name(number: int) -> str:
    try:
        return f"{number} ({signal.Signals(number).name})"
    except ValueError:
        return str(number)
