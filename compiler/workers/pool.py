"""Workers side by side."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from ...errors import CompileError
from ...runtime.store.store import ArtifactStore
from .messages import Answer, Job
from .process import WorkerProcess

_GRACE_S = 2.0
"""For workers that are told to end: a compiler written in C++ notices between two programs only."""


def worker_command(target: str, store: ArtifactStore) -> list[str]:
    """The command of a worker for that target and store. It needs the interpreter's own environment."""
    directories = [store.local, *store.shared]
    module = f"{__package__}.worker"
    return [sys.executable, "-m", module, target, *(str(directory.root.absolute()) for directory in directories)]


class WorkerPool:
    """Up to ``count`` workers, each started when a job finds none idle, and replaced when it dies.

    As a context manager it waits for all jobs; after an exception, such as Ctrl-C, it ends the workers and drops the
    jobs instead.

    Args:
        command: starts a worker; see ``worker_command``.
    """

    def __init__(self, command: Sequence[str], count: int):
        self._command = command
        self._threads = ThreadPoolExecutor(max_workers=count)
        self._room = threading.BoundedSemaphore(2 * count)
        self._lock = threading.Lock()
        self._all: list[WorkerProcess] = []
        self._idle: list[WorkerProcess] = []
        self._is_ending = False

    def submit(self, job: Job, on_start: Callable[[], None], on_end: Callable[[Answer], None]) -> Future[None]:
        """Have a job done; the future ends after ``on_end``. Both are called from a thread of the pool.

        Waits while as many jobs wait as run, so that few modules are in memory. A worker that dies is an answer too.
        """
        self._room.acquire()
        future = self._threads.submit(self._run, job, on_start, on_end)
        future.add_done_callback(lambda _: self._room.release())
        return future

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            self._threads.shutdown()
            self._end_workers(None)
        else:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._end_workers(_GRACE_S)
            self._threads.shutdown()

    def _run(self, job: Job, on_start: Callable[[], None], on_end: Callable[[Answer], None]) -> None:
        worker = self._take()
        on_start()
        answer = worker.run(job)
        self._give_back(worker)
        on_end(answer)

    def _take(self) -> WorkerProcess:
        with self._lock:
            if self._is_ending:
                raise CompileError("interrupted")
            while self._idle:
                worker = self._idle.pop()
                if not worker.has_ended:
                    return worker
                self._drop(worker)
            worker = WorkerProcess(self._command)
            self._all.append(worker)
            return worker

    def _give_back(self, worker: WorkerProcess) -> None:
        with self._lock:
            if worker.has_ended:
                self._drop(worker)
            else:
                self._idle.append(worker)

    def _drop(self, worker: WorkerProcess) -> None:
        self._all.remove(worker)
        worker.end()

    def _end_workers(self, grace: float | None) -> None:
        """End all workers: when they have done their jobs, or at once but for ``grace`` seconds."""
        with self._lock:
            self._is_ending = True
            workers = list(self._all)
        if grace is not None:
            for worker in workers:
                worker.ask_to_end()
        deadline = time.monotonic() + (grace or 0.0)
        for worker in workers:
            worker.end(None if grace is None else max(deadline - time.monotonic(), 0.0))
