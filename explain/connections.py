"""What has to be drawn between regions: short lines to the next region, lanes to later ones, uses of caches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .sizes import size_text
from .step import CacheUse, ExplainedStep, Handoff


@dataclass(frozen=True)
class Connection:
    """Everything that region ``maker`` hands to region ``user``."""

    maker: int
    user: int
    handoffs: tuple[Handoff, ...]

    @property
    def bytes(self) -> int:
        """Size of all values."""
        return sum(handoff.bytes for handoff in self.handoffs)

    def title(self, names: Sequence[str]) -> str:
        """What a pointer is told: who to whom, and each value; ``names`` are the regions'."""
        values = [f"{one.name}: {one.type}, {size_text(one.bytes)}" for one in self.handoffs]
        return "\n".join([f"{names[self.maker]} → {names[self.user]}", *values])


@dataclass(frozen=True)
class Lane:
    """Connections of one maker that go past the next region."""

    maker: int
    connections: tuple[Connection, ...]


@dataclass(frozen=True)
class Connections:
    """``steps``: from a region to the one after it. ``caches``: region -> its uses."""

    steps: tuple[Connection, ...]
    lanes: tuple[Lane, ...]
    caches: dict[int, tuple[CacheUse, ...]]


def connect(step: ExplainedStep) -> Connections:
    """Group what regions hand on by pair, and the pairs by how they are drawn."""
    pairs: dict[tuple[int, int], list[Handoff]] = {}
    for handoff in step.handoffs:
        pairs.setdefault((handoff.maker, handoff.user), []).append(handoff)
    connections = [Connection(maker, user, tuple(pairs[maker, user])) for maker, user in sorted(pairs)]
    lanes: dict[int, list[Connection]] = {}
    for connection in connections:
        if connection.user > connection.maker + 1:
            lanes.setdefault(connection.maker, []).append(connection)
    caches: dict[int, tuple[CacheUse, ...]] = {}
    for use in step.cache_uses:
        caches[use.region] = (*caches.get(use.region, ()), use)
    return Connections(
        steps=tuple(connection for connection in connections if connection.user == connection.maker + 1),
        lanes=tuple(Lane(maker, tuple(group)) for maker, group in lanes.items()),
        caches=caches,
    )


def assign_tracks(intervals: Sequence[tuple[int, int]]) -> list[int]:
    """A track for each interval, both ends included, such that no two of a track overlap; as few as can be."""
    tracks: list[int] = [0] * len(intervals)
    ends: list[int] = []
    for index in sorted(range(len(intervals)), key=lambda one: intervals[one]):
        start, end = intervals[index]
        free = [track for track, taken in enumerate(ends) if taken < start]
        if free:
            tracks[index] = free[0]
            ends[free[0]] = end
        else:
            tracks[index] = len(ends)
            ends.append(end)
    return tracks
