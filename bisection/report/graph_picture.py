"""A small graph, drawn: each node below those that it reads, joined by arrows of vertical and horizontal pieces."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from ...explain.drawing.shapes import Box, Drawing, Line, Shape, Text, fit_text, text_width
from .minimal_graph import GraphNode

MOST_NODES = 80
"""Larger graphs, as a search leaves that was ended early, are better read as text."""

OPERATION, GIVEN = "colour2", "colourless"
MARGIN = 14.0
NODE_HEIGHT, NODE_GAP = 40.0, 24.0
TEXT_SIZE, PADDING, TEXT_LIMIT = 11.0, 9.0, 300.0
TRACK, SPACE = 8.0, 14.0
PASS_WIDTH = 12.0
_PORT_DISTANCE = 4.0
_SWEEPS = 4


@dataclass(frozen=True)
class _Slot:
    """A place in a level: that of a node, or the one where the line of a node passes on its way further down."""

    node: int
    is_pass: bool


@dataclass
class _Level:
    """Slots from left to right, with the middle of each and the upper edge of all."""

    slots: list[_Slot]
    middles: dict[_Slot, float] = field(default_factory=dict)
    top: float = 0.0


def draw_graph(nodes: Sequence[GraphNode]) -> Drawing:
    """The picture of a graph; inputs are just above the first node that reads them."""
    numbers = _level_numbers(nodes)
    levels = _order(nodes, _slots(nodes, numbers))
    widths = {number: _width(node) for number, node in enumerate(nodes)}
    width = MARGIN * 2 + max((_level_width(level, widths) for level in levels), default=0.0)
    bottom = _place(nodes, levels, widths, width)
    shapes: list[Shape] = []
    for upper, lower in pairwise(levels):
        shapes += _lines(nodes, upper, lower, widths)
    shapes += [shape for level in levels for shape in _boxes(nodes, level, widths)]
    return Drawing(width, bottom + MARGIN, f"Graph of {len(nodes)} nodes", tuple(shapes))


def _level_numbers(nodes: Sequence[GraphNode]) -> list[int]:
    """The longest way from an input; for what reads nothing, the one above its first user."""
    numbers: list[int] = []
    for node in nodes:
        numbers.append(1 + max((numbers[one] for one in node.reads), default=-1))
    users: dict[int, list[int]] = {}
    for number, node in enumerate(nodes):
        for one in node.reads:
            users.setdefault(one, []).append(numbers[number])
    return [
        number if node.reads or position not in users else min(users[position]) - 1
        for position, (node, number) in enumerate(zip(nodes, numbers, strict=True))
    ]


def _slots(nodes: Sequence[GraphNode], numbers: Sequence[int]) -> list[_Level]:
    """Levels with their nodes, and with a pass for every line that goes further than the next level."""
    levels = [_Level([]) for _ in range(max(numbers, default=-1) + 1)]
    last = dict(enumerate(numbers))
    for number, node in enumerate(nodes):
        for one in node.reads:
            last[one] = max(last[one], numbers[number] - 1)
    for number, level in enumerate(numbers):
        levels[level].slots.append(_Slot(number, False))
        for between in range(level + 1, last[number] + 1):
            levels[between].slots.append(_Slot(number, True))
    return levels


def _order(nodes: Sequence[GraphNode], levels: list[_Level]) -> list[_Level]:
    """Move slots towards the middle of what they are joined with, downwards and upwards by turns."""
    for sweep in range(_SWEEPS):
        pairs = list(pairwise(levels))
        for upper, lower in pairs if sweep % 2 == 0 else reversed(pairs):
            joined = [(a, b) for a in upper.slots for b in lower.slots if _is_joined(nodes, a, b)]
            fixed, moved = (upper, lower) if sweep % 2 == 0 else (lower, upper)
            place = {slot: number / max(1, len(fixed.slots) - 1) for number, slot in enumerate(fixed.slots)}
            pulls: dict[_Slot, list[float]] = {}
            for above, below in joined:
                one, other = (below, above) if sweep % 2 == 0 else (above, below)
                pulls.setdefault(one, []).append(place[other])
            own = {slot: number / max(1, len(moved.slots) - 1) for number, slot in enumerate(moved.slots)}
            moved.slots.sort(key=lambda slot: _mean(pulls.get(slot, [own[slot]])))
    return levels


def _is_joined(nodes: Sequence[GraphNode], above: _Slot, below: _Slot) -> bool:
    """Whether a line goes from one slot to another in the next level."""
    return above.node == below.node if below.is_pass else above.node in nodes[below.node].reads


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _width(node: GraphNode) -> float:
    texts = _texts(node)
    return 2 * PADDING + max(text_width(text, TEXT_SIZE) for text in texts)


def _texts(node: GraphNode) -> tuple[str, str]:
    return fit_text(node.operator, TEXT_LIMIT, TEXT_SIZE), fit_text(f"{node.name} : {node.type}", TEXT_LIMIT, TEXT_SIZE)


def _level_width(level: _Level, widths: Mapping[int, float]) -> float:
    return sum(_slot_width(slot, widths) for slot in level.slots) + NODE_GAP * (len(level.slots) - 1)


def _slot_width(slot: _Slot, widths: Mapping[int, float]) -> float:
    return PASS_WIDTH if slot.is_pass else widths[slot.node]


def _place(nodes: Sequence[GraphNode], levels: list[_Level], widths: Mapping[int, float], width: float) -> float:
    """Give every slot its place, each level in the middle of the page; returns where the last one ends."""
    y = MARGIN
    for number, level in enumerate(levels):
        level.top = y
        x = (width - _level_width(level, widths)) / 2
        for slot in level.slots:
            level.middles[slot] = x + _slot_width(slot, widths) / 2
            x += _slot_width(slot, widths) + NODE_GAP
        below = levels[number + 1].slots if number + 1 < len(levels) else []
        sources = {above for above in level.slots for slot in below if _is_joined(nodes, above, slot)}
        y += NODE_HEIGHT + (2 * SPACE + TRACK * len(sources) if below else 0.0)
    return y


def _lines(nodes: Sequence[GraphNode], upper: _Level, lower: _Level, widths: Mapping[int, float]) -> Iterator[Line]:
    """The lines between two levels: those of one slot share a horizontal track, and no others do."""
    sources = [slot for slot in upper.slots if any(_is_joined(nodes, slot, below) for below in lower.slots)]
    tracks = {slot: upper.top + NODE_HEIGHT + SPACE + TRACK * number for number, slot in enumerate(sources)}
    for below in lower.slots:
        entering = [slot for slot in sources if _is_joined(nodes, slot, below)]
        for position, above in enumerate(entering, 1):
            start, y = upper.middles[above], tracks[above]
            left = lower.middles[below] - _slot_width(below, widths) / 2
            end = left + _slot_width(below, widths) * position / (len(entering) + 1)
            while any(abs(end - upper.middles[one]) < _PORT_DISTANCE for one in sources if one != above):
                end += _PORT_DISTANCE / 2
            exit_y = upper.top + (0.0 if above.is_pass else NODE_HEIGHT)
            entry_y = lower.top + (NODE_HEIGHT if below.is_pass else 0.0)
            title = f"{nodes[above.node].name} : {nodes[above.node].type}"
            yield Line(((start, exit_y), (start, y), (end, y), (end, entry_y)), 1.2, "value", title, not below.is_pass)


def _boxes(nodes: Sequence[GraphNode], level: _Level, widths: Mapping[int, float]) -> Iterator[Shape]:
    for slot in level.slots:
        if slot.is_pass:
            continue
        node, width = nodes[slot.node], widths[slot.node]
        x = level.middles[slot] - width / 2
        style = OPERATION if node.is_operation else GIVEN
        lines = [node.operator, f"{node.name} : {node.type}", node.line, "returned" if node.is_returned else ""]
        title = "\n".join(line for line in lines if line)
        yield Box(x, level.top, width, NODE_HEIGHT, f"{style} strong" if node.is_returned else style, title)
        operator, type_ = _texts(node)
        yield Text(x + PADDING, level.top + 16, operator, TEXT_SIZE, "name")
        yield Text(x + PADDING, level.top + 31, type_, TEXT_SIZE, "detail")
