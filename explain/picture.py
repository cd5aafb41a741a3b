"""Draw the regions of a step: layers down the page, equal programs in one colour, values and caches as lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import log2

from .connections import Connection, Connections, connect
from .drawing.shapes import Box, Dot, Drawing, Line, Shape, Text, fit_text, text_width
from .placement import BOX_HEIGHT, BOX_WIDTH, LABEL_LIMIT, LABEL_SIZE, MARGIN, Placement, place
from .rows import Row, arrange_rows
from .sizes import size_text
from .step import ExplainedProgram, ExplainedRegion, ExplainedStep

COLOURS = 10
"""Programs that get a colour of their own, the most used first; the rest are grey."""

TITLE_SIZE = 16.0
SMALL_SIZE = 11.0
EDGE_SIZE = 10.0
LINE_HEIGHT = 18.0
PADDING = 10.0
CACHE_NAME_LIMIT = 320.0
EXIT, TURN, CACHE = 0.2, 0.5, 0.85
"""Where lines leave the lower side of a box, in units of its width; a turn enters the next one in its right half."""


def draw_step(step: ExplainedStep) -> Drawing:
    """The picture of one batch size. Works for any names, no caches, one region or hundreds."""
    rows, connections = arrange_rows(step.regions), connect(step)
    header = _header(step)
    header_width = max(text.right for text in header) - MARGIN
    header_height = LINE_HEIGHT * max(len(header) + 1, len(step.caches) + 1)
    placement = place(rows, connections, list(step.caches), header_width, header_height)
    cache_names = _cache_names(step, placement)
    shapes: list[Shape] = [
        *header,
        *cache_names,
        *_lifelines(step, connections, placement),
        *_lanes(step, connections, placement),
        *_steps(step, connections, placement),
        *_row_names(placement),
        *_regions(step, rows, placement),
    ]
    ends = [shape.right for shape in cache_names if isinstance(shape, Text)]
    width = max([placement.right, *ends]) + MARGIN
    return Drawing(width, placement.bottom + MARGIN, header[0].text, tuple(shapes))


def colour_of(programs: tuple[ExplainedProgram, ...]) -> dict[int, str]:
    """Program number -> name of its colour."""
    ranked = sorted(programs, key=lambda program: (-program.uses, program.number))
    return {program.number: f"colour{rank}" if rank < COLOURS else "colourless" for rank, program in enumerate(ranked)}


def _header(step: ExplainedStep) -> list[Text]:
    lines = [
        f"regions {len(step.regions)}, programs {len(step.programs)}, nodes {step.nodes}; equal colours: one program",
        "lines between regions: values, thicker with more bytes",
        "lines to the right: caches, full dots write, empty dots read",
    ]
    title = f"Decode step, batch {step.batch_size}, mode {step.mode}"
    return [
        Text(MARGIN, MARGIN + TITLE_SIZE, title, TITLE_SIZE, "title"),
        *(
            Text(MARGIN, MARGIN + TITLE_SIZE + LINE_HEIGHT * index, line, SMALL_SIZE, "note")
            for index, line in enumerate(lines, start=1)
        ),
    ]


def _row_names(placement: Placement) -> Iterator[Text]:
    for name, y in placement.row_names:
        if name:
            yield Text(MARGIN, y + LABEL_SIZE / 3, fit_text(name, LABEL_LIMIT, LABEL_SIZE), LABEL_SIZE, "row")


def _regions(step: ExplainedStep, rows: list[Row], placement: Placement) -> Iterator[Shape]:
    colours = colour_of(step.programs)
    programs = {program.number: program for program in step.programs}
    labels = [label for row in rows for label in row.labels]
    for region, label, box in zip(step.regions, labels, placement.boxes, strict=True):
        program = programs[region.program]
        strong = " strong" if program.uses > 1 else ""
        title = _region_title(step, region, program)
        yield Box(box.x, box.y, box.width, box.height, f"{colours[program.number]}{strong}", title)
        inside = BOX_WIDTH - 2 * PADDING
        yield Text(box.x + PADDING, box.y + 19, fit_text(label, inside, LABEL_SIZE), LABEL_SIZE, "name")
        badge = f"used {program.uses}x" if program.uses > 1 else ""
        room = inside - text_width(f"{badge} ", SMALL_SIZE)
        detail = fit_text(f"P{program.number} · {region.nodes} nodes", room, SMALL_SIZE)
        yield Text(box.x + PADDING, box.y + 37, detail, SMALL_SIZE, "detail")
        if badge:
            yield Text(box.x + box.width - PADDING, box.y + 37, badge, SMALL_SIZE, "badge", "end")


def _region_title(step: ExplainedStep, region: ExplainedRegion, program: ExplainedProgram) -> str:
    caches = [
        f"{'updates' if use.updates else 'reads'} {use.cache}" for use in step.cache_uses if use.region == region.number
    ]
    lines = [
        f"{region.number}: {region.name}",
        f"program P{program.number} {program.digest[:12]}, {size_text(program.bytes)}, {program.seconds:.1f} s",
        f"{region.weights} weights, {region.slots} slots, {region.values} values in, {region.outputs} values out",
    ]
    return "\n".join([*lines, *caches])


def _steps(step: ExplainedStep, connections: Connections, placement: Placement) -> Iterator[Shape]:
    names = [region.name for region in step.regions]
    for one in connections.steps:
        maker, user = placement.boxes[one.maker], placement.boxes[one.user]
        track = placement.tracks.get(("turn", one.maker, one.user))
        label = size_text(one.bytes)
        if track is None:
            middle = maker.y + BOX_HEIGHT / 2
            start, end = maker.x + maker.width, user.x
            yield _line(((start, middle), (end, middle)), one, names, arrow=True)
            yield Text((start + end) / 2, middle - 5, label, EDGE_SIZE, "note", "middle")
        else:
            start, end = maker.x + TURN * maker.width, user.x + (TURN + 0.2) * user.width
            corners = ((start, maker.y + maker.height), (start, track), (end, track), (end, user.y))
            yield _line(corners, one, names, arrow=True)
            if end < start:
                yield Text(start - 4, track - 4, label, EDGE_SIZE, "note", "end")
            else:
                yield Text(start + 6, track - 4, label, EDGE_SIZE, "note")


def _lanes(step: ExplainedStep, connections: Connections, placement: Placement) -> Iterator[Shape]:
    names = [region.name for region in step.regions]
    for lane in connections.lanes:
        x, box = placement.lanes[lane.maker], placement.boxes[lane.maker]
        exit_y = placement.tracks["exit", lane.maker, lane.maker]
        users = [(one, placement.tracks["entry", one.maker, one.user]) for one in lane.connections]
        ends = [exit_y, *(y for _, y in users)]
        title = f"from {names[lane.maker]} to {', '.join(names[one.user] for one, _ in users)}"
        start = box.x + EXIT * box.width
        yield Line(((start, box.y + box.height), (start, exit_y), (x, exit_y)), 1.5, "lane", title)
        yield Line(((x, min(ends)), (x, max(ends))), 1.5, "lane", title)
        yield Dot(x, exit_y, 2.5, "junction", title)
        for one, y in users:
            end = placement.entries[one.maker, one.user]
            yield _line(((x, y), (end, y), (end, placement.boxes[one.user].y)), one, names, arrow=True)
            yield Dot(x, y, 2.5, "junction", title)


def _line(points: tuple[tuple[float, float], ...], one: Connection, names: list[str], arrow: bool) -> Line:
    return Line(points, line_width(one.bytes), "value", one.title(names), arrow)


def line_width(count: int) -> float:
    """Pixels for a number of bytes: 1 up to 64 B, and one more for every factor of 16, up to 5."""
    return 1 + min(4.0, max(0.0, log2(max(count, 1) / 64)) / 4)


def _cache_names(step: ExplainedStep, placement: Placement) -> list[Shape]:
    """A line of text for each cache, led down to the top of its lifeline; the first is the topmost."""
    shapes: list[Shape] = []
    start = max(placement.caches.values(), default=0.0) + PADDING
    for index, (name, size) in enumerate(step.caches.items()):
        y = MARGIN + LINE_HEIGHT * (index + 0.5)
        text = fit_text(name, CACHE_NAME_LIMIT, SMALL_SIZE)
        shapes.append(Line(((start - 3, y), (placement.caches[name], y)), 1, "lifeline", name))
        shapes.append(Text(start, y + SMALL_SIZE / 3, f"{text}, {size_text(size)}", SMALL_SIZE, "note"))
    return shapes


def _lifelines(step: ExplainedStep, connections: Connections, placement: Placement) -> Iterator[Shape]:
    names = [region.name for region in step.regions]
    last: dict[str, float] = {}
    for region, uses in connections.caches.items():
        y = placement.tracks["cache", region, region]
        last |= {use.cache: max(y, last.get(use.cache, 0.0)) for use in uses}
    yield from _vertical_lifelines(last, list(step.caches), placement.caches)
    for region, uses in connections.caches.items():
        box, y = placement.boxes[region], placement.tracks["cache", region, region]
        start = box.x + CACHE * box.width
        end = max(placement.caches[use.cache] for use in uses)
        title = f"{names[region]}: {', '.join(use.cache for use in uses)}"
        yield Line(((start, box.y + box.height), (start, y), (end, y)), 1, "cache", title)
        for use in uses:
            verb = "updates" if use.updates else "reads"
            x = placement.caches[use.cache]
            yield Dot(x, y, 4, f"cache {verb}", f"{names[region]} {verb} {use.cache}")


def _vertical_lifelines(last: Mapping[str, float], caches: list[str], x_of: Mapping[str, float]) -> Iterator[Line]:
    for index, name in enumerate(caches):
        y = MARGIN + LINE_HEIGHT * (index + 0.5)
        yield Line(((x_of[name], y), (x_of[name], last.get(name, y))), 1, "lifeline", name)
