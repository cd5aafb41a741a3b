"""A worker as its parent sees it."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import BinaryIO

from .messages import Answer, Job, receive_answer, send_job

_CRASHES = {signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL, signal.SIGSEGV, signal.SIGTRAP}


class WorkerProcess:
    """One worker, started with ``command`` in a process group of its own, so that Ctrl-C reaches the parent only."""

    def __init__(self, command: Sequence[str]):
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)

    @property
    def has_ended(self) -> bool:
        """Whether it takes no more jobs."""
        return self._process.poll() is not None

    def run(self, job: Job) -> Answer:
        """Have a job done and wait for the answer, which says so if the worker ended instead."""
        start = time.perf_counter()
        answer = None
        # A worker that has ended reads no more: its exit code says more than the broken pipe.
        with suppress(BrokenPipeError):
            send_job(_pipe(self._process.stdin), job)
            answer = receive_answer(_pipe(self._process.stdout))
        if answer is not None:
            return answer
        code = self._process.wait()
        return Answer(None, time.perf_counter() - start, error=_reason(code), has_crashed=-code in _CRASHES)

    def ask_to_end(self) -> None:
        """Have it leave what it does."""
        self._process.terminate()

    def end(self, timeout: float | None = None) -> None:
        """Send no more jobs, wait until it has ended, and kill it after ``timeout`` seconds."""
        with suppress(BrokenPipeError):
            _pipe(self._process.stdin).close()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _pipe(self._process.stdout).close()


def _pipe(file: object) -> BinaryIO:
    assert file is not None
    return file  # pyright: ignore[reportReturnType]


def _reason(code: int) -> str:
    if code >= 0:
        return f"the compiling process ended with exit code {code}; what it wrote to stderr says why"
    ended_by = signal.Signals(-code)
    if ended_by in _CRASHES:
        return f"the compiler crashed with {ended_by.name}; what it wrote to stderr may say why"
    hint = ", perhaps because memory ran out: try fewer --jobs" if ended_by is signal.SIGKILL else ""
    return f"the compiling process was ended by {ended_by.name}{hint}"
