"""Threads that compile, and end with the one that waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

from ...runtime.processor import usable_processors
from ..targets.base import Target


@contextmanager
def compiling_threads(target: Target, count: int | None = None) -> Iterator[Executor]:
    """A pool for the compilations of a target, of ``count`` threads, or one for each processor.

    An interrupt cancels those that run and drops those that wait; another error waits for those that run.
    """
    with _CompilingThreads(count or usable_processors()) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            target.cancelled.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


class _CompilingThreads(ThreadPoolExecutor):
    """``submit`` waits while as many modules wait for a thread as are compiled, so that few are in memory."""

    def __init__(self, count: int):
        super().__init__(max_workers=count)
        self._room = threading.BoundedSemaphore(2 * count)

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        self._room.acquire()
        future = super().submit(fn, *args, **kwargs)
        future.add_done_callback(lambda _: self._room.release())
        return future
