"""The sizes that were asked about, over the probes that it took."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import log2

from ...explain.drawing.shapes import Dot, Drawing, Line, Point, Shape, Text
from ..search.result import HistoryPoint

WIDTH, HEIGHT = 760.0, 280.0
LEFT, RIGHT, TOP, BOTTOM = 64.0, 16.0, 28.0, 40.0
TEXT_SIZE = 10.0
RADIUS = 3.0
MOST_TITLES = 1000
"""Beyond so many points they have no text of their own, which would make up most of the page."""

_TICKS = 8


def draw_history(history: Sequence[HistoryPoint]) -> Drawing:
    """Probes to the right, operations upwards by powers of two; a line is the smallest failing size so far."""
    most_probes = max((point.probes for point in history), default=1)
    largest = max((max(point.size, point.best) for point in history), default=1)
    scale = _Scale(most_probes, largest)
    shapes: list[Shape] = [*_axes(scale, most_probes, largest)]
    if history:
        shapes.append(Line(tuple(_stairs(history, scale)), 1.5, "best", "smallest failing so far"))
    for point in history:
        style = "failed" if point.failed else "passed"
        title = f"{point.stage}: {point.size} operations, {style}" if len(history) <= MOST_TITLES else ""
        shapes.append(Dot(*scale.at(point.probes, point.size), RADIUS, style, title))
    return Drawing(WIDTH, HEIGHT, "Sizes over probes", tuple(shapes))


class _Scale:
    """Probes and operations to pixels."""

    def __init__(self, most_probes: int, largest: int) -> None:
        self._probes = max(1, most_probes)
        self._doublings = max(1.0, log2(max(1, largest)))

    def at(self, probes: int, size: int) -> Point:
        """Where a point is; no operation is drawn as one."""
        x = LEFT + (WIDTH - LEFT - RIGHT) * probes / self._probes
        y = HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * log2(max(1, size)) / self._doublings
        return x, y


def _stairs(history: Sequence[HistoryPoint], scale: _Scale) -> Iterator[Point]:
    yield scale.at(history[0].probes, history[0].best)
    for before, point in pairwise(history):
        if before.best != point.best:
            yield scale.at(point.probes, before.best)
            yield scale.at(point.probes, point.best)
    yield scale.at(history[-1].probes, history[-1].best)


def _axes(scale: _Scale, most_probes: int, largest: int) -> Iterator[Shape]:
    left, bottom = scale.at(0, 1)
    right, top = scale.at(most_probes, largest)
    right = max(right, left)
    yield Line(((left, top), (left, bottom), (right, bottom)), 1, "axis")
    for power in range(0, int(log2(max(1, largest))) + 1, 1 + int(log2(max(1, largest))) // _TICKS):
        _, y = scale.at(0, 2**power)
        yield Line(((left, y), (right, y)), 0.5, "grid")
        yield Text(left - 6, y + TEXT_SIZE / 3, f"{2**power:,}", TEXT_SIZE, "detail", "end")
    step = max(1, -(-most_probes // _TICKS))
    for probes in range(0, most_probes + 1, step):
        x, _ = scale.at(probes, 1)
        yield Text(x, bottom + 14, f"{probes:,}", TEXT_SIZE, "detail", "middle")
    yield Text((left + right) / 2, HEIGHT - 8, "probes", TEXT_SIZE, "detail", "middle")
    yield Text(left, top - 10, "operations", TEXT_SIZE, "detail", "middle")
