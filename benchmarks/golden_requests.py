"""The requests whose next step is timed: the golden prompts, prefilled."""

from __future__ import annotations

from itertools import cycle, islice
from pathlib import Path

from ..model.accuracy.golden_pool import load_golden_prompts, make_pool
from ..model.accuracy.teacher_forced import ForcedRequest, add_prompts
from ..model.requests import RequestPool
from ..reporting import Say


def prefilled_requests(
    directory: Path, count: int, say: Say, target: str | None = None
) -> tuple[RequestPool, list[ForcedRequest]]:
    """A pool with ``count`` requests, each after a golden prompt; checkpoint and golden file are made if absent.

    ``target`` is that of ``make_pool``.
    """
    checkpoint, golden = load_golden_prompts(directory, "tiny", say)
    pool = make_pool(checkpoint, golden, count, target)
    say(f"prefilling {count} requests")
    return pool, add_prompts(pool, list(islice(cycle(golden.prompts.values()), count)))
