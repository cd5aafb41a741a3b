"""Find a smallest set of items that still fails, with few questions.

A failure that needs k of n items is found by k searches for the shortest prefix that fails: the last item of that
prefix is needed, and the search goes on before it. That takes about k * log2(n) questions, where no method can do with
fewer than log2 of "n choose k" on average; delta debugging (Zeller and Hildebrandt, "Simplifying and Isolating
Failure-Inducing Input", 2002) takes up to k times more. Every set that is kept was seen to fail, so that a failure that
is not monotone costs questions and never the answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Sequence

Fails = Callable[[frozenset[int]], bool]
"""Whether a set of items fails in the wanted way. Asked again for a set, it gives the same answer."""

Prefetch = Callable[[Sequence[frozenset[int]]], None]
"""Told which sets may be asked for next, the likeliest first, so that answers can be looked for ahead."""

_DENSE_AFTER = 2
"""So many needed items side by side, and more are looked for there first."""


def minimal_subset(items: Sequence[int], fails: Fails, prefetch: Prefetch = lambda sets: None) -> list[int]:
    """A subset that fails and of which no item can be left out, in the order of ``items``.

    ``items`` must have been seen to fail together. The empty set is taken not to fail. Items that come early are
    preferred: of two that fail alone, the first one is found.
    """
    kept = sorted_like(items, items)
    while True:
        kept = _needed(kept, fails, prefetch)
        smaller = _without_one(kept, fails, prefetch)
        if smaller is None:
            return kept
        kept = smaller


def lower_bound(items: int, kept: int) -> float:
    """Yes-or-no questions that any method needs on average to find ``kept`` of ``items``: log2 of the choices."""
    return math.log2(math.comb(items, kept)) if 0 <= kept <= items else 0.0


def sorted_like(order: Sequence[int], chosen: Collection[int]) -> list[int]:
    """The distinct members of ``chosen`` in the order of ``order``."""
    members = set(chosen)
    return [item for item in dict.fromkeys(order) if item in members]


def _needed(pool: list[int], fails: Fails, prefetch: Prefetch) -> list[int]:
    """Items that fail together, each of which was needed when it was found; one pass from the back to the front."""
    needed: list[int] = []
    run = 0
    while pool and not (needed and fails(frozenset(needed))):
        length = _shortest_prefix(pool, needed, fails, prefetch, is_dense=run >= _DENSE_AFTER)
        run = run + 1 if length == len(pool) else 1
        needed.insert(0, pool[length - 1])
        pool = pool[: length - 1]
    return needed


def _shortest_prefix(
    pool: Sequence[int], needed: Sequence[int], fails: Fails, prefetch: Prefetch, *, is_dense: bool
) -> int:
    """Length of the shortest prefix of ``pool`` that fails together with ``needed``, if failing is monotone.

    The whole pool does, none of it does not.
    """

    def prefix(length: int) -> frozenset[int]:
        return frozenset((*pool[:length], *needed))

    passing, failing, step = 0, len(pool), 1
    while failing - passing > 1:
        # Where needed items lie side by side, steps of growing length from the end find the next one sooner.
        middle = max(failing - step, passing + 1) if is_dense else (passing + failing) // 2
        step *= 2
        prefetch([prefix(middle), prefix((passing + middle) // 2), prefix((middle + failing) // 2)])
        if fails(prefix(middle)):
            failing = middle
        else:
            passing, is_dense = middle, False
    return failing


def _without_one(kept: Sequence[int], fails: Fails, prefetch: Prefetch) -> list[int] | None:
    """``kept`` without the first item that is not needed; None if each is."""
    smaller = [frozenset(kept) - {item} for item in kept] if len(kept) > 1 else []
    for number, one in enumerate(smaller):
        prefetch(smaller[number:])
        if fails(one):
            return sorted_like(kept, one)
    return None
