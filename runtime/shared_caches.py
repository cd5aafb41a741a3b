"""A compiled step on the caches that eager code uses, wherever programs have their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from .runner import DecodeRunner


def on_shared_caches(runner: DecodeRunner) -> Callable[..., Any]:
    """``runner`` as a function that sees what eager code wrote to the model's caches, and leaves there what it wrote.

    On a device with memory of its own the caches are copied there and back in each call; elsewhere they are the same.
    """

    def step(**inputs: Tensor) -> Any:
        runner.write_caches()
        results = runner(**inputs)
        runner.read_caches()
        return results

    return step
