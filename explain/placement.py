"""Where everything of the picture is: boxes in rows, lanes to their left, caches to their right.

Between two rows is a gap of horizontal tracks, one for each line that leaves the row above or enters the row below, so
no two lines share a track and no line crosses a box.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from .connections import Connections, Lane, assign_tracks
from .drawing.shapes import Box, text_width
from .rows import Row

MARGIN = 24.0
BOX_WIDTH = 200.0
BOX_HEIGHT = 46.0
BOX_SPACE = 84.0
LANE_SPACE = 11.0
CACHE_SPACE = 20.0
TRACK_HEIGHT = 9.0
LABELLED_TRACK_HEIGHT = 20.0
GAP_PADDING = 9.0
LABEL_SIZE = 13.0
LABEL_LIMIT = 180.0

Track = tuple[Literal["exit", "cache", "turn", "entry"], int, int]
"""Whose line a track holds: its kind, the region it leaves and the region it enters (the same for both if none)."""


@dataclass(frozen=True)
class Placement:
    """Coordinates in pixels.

    Attributes:
        boxes: one for each region.
        tracks: y of each horizontal line between rows.
        entries: (maker, user) -> x at which a lane's line comes down on the user's box.
        lanes: maker -> x of its lane.
        caches: cache -> x of its lifeline.
        right: where the rows and what is written above them end.
        bottom: where the last gap ends.
    """

    boxes: tuple[Box, ...]
    row_names: tuple[tuple[str, float], ...]
    tracks: Mapping[Track, float]
    entries: Mapping[tuple[int, int], float]
    lanes: Mapping[int, float]
    caches: Mapping[str, float]
    right: float
    bottom: float


def place(
    rows: Sequence[Row], connections: Connections, caches: Sequence[str], header_width: float, header_height: float
) -> Placement:
    """Lay out rows below a header of the given size."""
    row_of = [index for index, row in enumerate(rows) for _ in row.regions]
    lane_numbers = assign_tracks([_lane_interval(lane, row_of) for lane in connections.lanes])
    label_width = min(LABEL_LIMIT, max((text_width(row.name, LABEL_SIZE) for row in rows), default=0.0))
    first_box = MARGIN + label_width + LANE_SPACE * (max(lane_numbers, default=-1) + 2)
    tracks, tops, bottom = _place_gaps(_gap_tracks(len(rows), connections, row_of), MARGIN + header_height)
    boxes = tuple(
        Box(first_box + column * (BOX_WIDTH + BOX_SPACE), tops[index], BOX_WIDTH, BOX_HEIGHT, "")
        for index, row in enumerate(rows)
        for column in range(len(row.regions))
    )
    right = max([MARGIN + header_width, *(box.x + box.width for box in boxes)])
    return Placement(
        boxes=boxes,
        row_names=tuple((row.name, tops[index] + BOX_HEIGHT / 2) for index, row in enumerate(rows)),
        tracks=tracks,
        entries=_entry_points(boxes, connections),
        lanes={
            lane.maker: first_box - LANE_SPACE * (number + 1)
            for lane, number in zip(connections.lanes, lane_numbers, strict=True)
        },
        caches={name: right + CACHE_SPACE * (index + 1.5) for index, name in enumerate(caches)},
        right=right,
        bottom=bottom,
    )


def _lane_interval(lane: Lane, row_of: Sequence[int]) -> tuple[int, int]:
    """The first and the last gap that a lane runs through; gap i is above row i."""
    gaps = [row_of[lane.maker] + 1, *(row_of[connection.user] for connection in lane.connections)]
    return min(gaps), max(gaps)


def _gap_tracks(rows: int, connections: Connections, row_of: Sequence[int]) -> list[list[Track]]:
    """The tracks of every gap: first what leaves the row above, last what enters the row below."""
    gaps: list[list[Track]] = [[] for _ in range(rows + 1)]
    for lane in connections.lanes:
        gaps[row_of[lane.maker] + 1].append(("exit", lane.maker, lane.maker))
    for region in connections.caches:
        gaps[row_of[region] + 1].append(("cache", region, region))
    for connection in connections.steps:
        if row_of[connection.maker] != row_of[connection.user]:
            gaps[row_of[connection.user]].append(("turn", connection.maker, connection.user))
    for lane in connections.lanes:
        for connection in lane.connections:
            gaps[row_of[connection.user]].append(("entry", connection.maker, connection.user))
    return gaps


def _place_gaps(gaps: Sequence[Sequence[Track]], top: float) -> tuple[dict[Track, float], list[float], float]:
    """y of every track, of the top of every row, and of the end of the last gap."""
    tracks: dict[Track, float] = {}
    tops = []
    y = top
    for gap in gaps:
        y += GAP_PADDING
        for track in gap:
            y += LABELLED_TRACK_HEIGHT if track[0] == "turn" else TRACK_HEIGHT
            tracks[track] = y
        y += GAP_PADDING
        tops.append(y)
        y += BOX_HEIGHT
    return tracks, tops[:-1], tops[-1]


def _entry_points(boxes: Sequence[Box], connections: Connections) -> dict[tuple[int, int], float]:
    """Lanes come down on the left half of a box, side by side."""
    pairs = [(lane.maker, connection.user) for lane in connections.lanes for connection in lane.connections]
    counts = Counter(user for _, user in pairs)
    taken: Counter[int] = Counter()
    points = {}
    for maker, user in pairs:
        space = BOX_WIDTH / 2 / (counts[user] + 1)
        taken[user] += 1
        points[maker, user] = boxes[user].x + space * taken[user]
    return points
