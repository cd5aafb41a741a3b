"""Threads that compile, and end with the one that waits for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager

from ..targets.base import Target


@contextmanager
def compiling_threads(target: Target) -> Iterator[Executor]:
    """A pool for the compilations of a target, one thread for each processor.

    An interrupt cancels those that run and drops those that wait; another error waits for those that run.
    """
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        try:
            yield pool
        except KeyboardInterrupt:
            target.cancel()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
