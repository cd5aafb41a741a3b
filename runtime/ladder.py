"""The batch sizes that get a program of their own."""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import InputError

_SMALL = (1, 2, 4)
_STEP = 8


def size_ladder(sizes: int | Iterable[int]) -> tuple[int, ...]:
    """Ascending batch sizes to compile.

    A number is the largest live batch: the ladder is 1, 2, 4 and multiples of 8 up to it, and always ends in
    the number itself. A sequence is taken as it is, sorted and without duplicates.

    Raises:
        InputError: a size below one, or no size at all.
    """
    if isinstance(sizes, int):
        ladder = {size for size in (*_SMALL, *range(_STEP, sizes + 1, _STEP)) if size <= sizes} | {sizes}
    else:
        ladder = set(sizes)
    if not ladder or min(ladder) < 1:
        raise InputError(f"batch sizes {sizes!r}: expected at least one size, all of them 1 or more")
    return tuple(sorted(ladder))
