"""The whole program as one picture: a cell for every item in the order of the program, the kept ones lit and joined."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

from ...explain.drawing.shapes import Box, Drawing, Line, Point, Shape, Text, fit_text
from ..subjects.subject import Item

CELL, GAP = 9.0, 2.0
COLUMNS = 80
MARGIN = 12.0
LABEL_WIDTH, LABEL_SIZE = 190.0, 10.0
MOST_JOINED = 100
"""Of more kept operations, as a search leaves that was ended early, lines would hide the picture."""

_TITLE_CHARACTERS = 150


def draw_program(items: Sequence[Item], kept: Sequence[int]) -> Drawing:
    """Rows of cells, a region beginning on a new one; lines join kept items with those that they read."""
    lit = frozenset(kept)
    cells, labels, bottom = _place(items)
    shapes: list[Shape] = [
        *labels,
        *(_cell(item, place, number in lit) for number, (item, place) in enumerate(zip(items, cells, strict=True))),
        *_joints(items, sorted(lit), cells),
    ]
    width = MARGIN + LABEL_WIDTH + COLUMNS * (CELL + GAP) + MARGIN
    title = f"{len(items)} operations and results, {len(lit)} of them kept"
    return Drawing(width, bottom + MARGIN, title, tuple(shapes))


def _place(items: Sequence[Item]) -> tuple[list[Point], list[Text], float]:
    """The upper left corner of every cell, the names of regions, and where the last row ends."""
    cells: list[Point] = []
    labels: list[Text] = []
    y = MARGIN
    for group, members in groupby(items, key=lambda item: item.group):
        count = len(list(members))
        if group:
            label = fit_text(group, LABEL_WIDTH - GAP, LABEL_SIZE)
            labels.append(Text(MARGIN, y + CELL - 1, label, LABEL_SIZE, "detail"))
        for number in range(count):
            row, column = divmod(number, COLUMNS)
            cells.append((MARGIN + LABEL_WIDTH + column * (CELL + GAP), y + row * (CELL + GAP)))
        y += (1 + (count - 1) // COLUMNS) * (CELL + GAP) + GAP
    return cells, labels, y


def _cell(item: Item, place: Point, is_kept: bool) -> Box:
    kind = "kept" if is_kept else "result" if item.is_result else "cell"
    text = item.text if len(item.text) <= _TITLE_CHARACTERS else f"{item.text[: _TITLE_CHARACTERS - 1]}…"
    return Box(*place, CELL, CELL, kind, f"{text}\n{item.line}" if item.line else text, radius=2)


def _joints(items: Sequence[Item], kept: Sequence[int], cells: Sequence[Point]) -> Iterator[Line]:
    """A line for every read between kept items, a broken one to the next kept item that reads nothing of them."""
    if len(kept) > MOST_JOINED:
        return
    for before, number in pairwise([-1, *kept]):
        sources = [one for one in items[number].reads if one in kept]
        for source in sources or ([before] if before >= 0 else []):
            style = "joined" if sources else "next"
            title = f"{items[source].name} → {items[number].name}"
            yield Line((_middle(cells[source]), _middle(cells[number])), 1.5, style, title)


def _middle(place: Point) -> Point:
    return place[0] + CELL / 2, place[1] + CELL / 2
