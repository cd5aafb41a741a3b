"""The picture is measured, since nobody looks at it in a test."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import numpy as np
import pytest
from deepinfer_neuron.explain.drawing.shapes import Box, Dot, Drawing, Line, Text
from deepinfer_neuron.explain.drawing.svg import to_svg
from deepinfer_neuron.explain.picture import COLOURS, colour_of, draw_step, line_width
from explained_steps import make_step
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = ["x", "l.0.a", "l.0.b", "l.1.a", "l.1.b", "l.2"]


def of_type(drawing: Drawing, kind: type) -> list:
    return [shape for shape in drawing.shapes if isinstance(shape, kind)]


def points_of(shape) -> list[tuple[float, float]]:
    match shape:
        case Box():
            return [(shape.x, shape.y), (shape.x + shape.width, shape.y + shape.height)]
        case Line():
            return list(shape.points)
        case Dot():
            return [(shape.x - shape.radius, shape.y - shape.radius), (shape.x + shape.radius, shape.y + shape.radius)]
        case Text():
            return [(shape.left, shape.y - shape.size), (shape.right, shape.y)]


def crossing(frames: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which pairs of frames [n, (left, top, right, bottom)] share a point inside both."""
    frames, others = frames[:, None], others[None]
    return ((frames[..., :2] < others[..., 2:]) & (frames[..., 2:] > others[..., :2])).all(-1)


def frames_of(shapes: Iterable) -> np.ndarray:
    return np.array([[*np.min(points_of(one), 0), *np.max(points_of(one), 0)] for one in shapes]).reshape(-1, 4)


def pieces_of(line: Line) -> list[Line]:
    return [Line(pair, line.width, line.style) for pair in pairwise(line.points)]


def check(drawing: Drawing) -> None:
    boxes, lines, texts = (of_type(drawing, kind) for kind in (Box, Line, Text))
    frames = frames_of(drawing.shapes)
    assert (frames[:, :2] >= 0).all()
    assert (frames[:, 2:] <= (drawing.width, drawing.height)).all()
    pieces = frames_of(piece for line in lines for piece in pieces_of(line))
    assert (pieces[:, :2] == pieces[:, 2:]).any(-1).all(), "every piece is horizontal or vertical"
    box_frames, text_frames = frames_of(boxes), frames_of(texts)
    assert not crossing(box_frames, pieces).any()
    assert (crossing(box_frames, box_frames) == np.eye(len(boxes))).all()
    assert (crossing(text_frames, text_frames) == np.eye(len(texts))).all()
    for box, touched in zip(box_frames, crossing(box_frames, text_frames), strict=True):
        inside = text_frames[touched]
        assert len(inside) >= 2
        assert (inside[:, :2] >= box[:2]).all()
        assert (inside[:, 2:] <= box[2:]).all()


def check_tracks(drawing: Drawing) -> None:
    """No two horizontal pieces lie on one another."""
    pieces = frames_of(piece for line in of_type(drawing, Line) for piece in pieces_of(line))
    left, top, right, _ = pieces[(pieces[:, 1] == pieces[:, 3]) & (pieces[:, 0] != pieces[:, 2])].T
    shared = (top[:, None] == top) & (left[:, None] < right) & (left < right[:, None])
    assert (shared == np.eye(len(top))).all()


def test_layers_go_down_the_page_and_their_parts_across(layered_step):
    drawing = draw_step(layered_step)
    check(drawing)
    check_tracks(drawing)
    boxes = of_type(drawing, Box)
    assert [box.title.splitlines()[0] for box in boxes] == [
        f"{region.number}: {region.name}" for region in layered_step.regions
    ]
    embed, attention, experts, second_attention, _, end = boxes
    assert embed.y < attention.y == experts.y < second_attention.y < end.y
    assert embed.x == attention.x < experts.x
    assert {text.text for text in of_type(drawing, Text)} >= {"layers.0", "layers.1", "attention", "experts", "end"}


def test_regions_of_one_program_have_one_colour_and_a_mark(layered_step):
    drawing = draw_step(layered_step)
    styles = [box.style.split() for box in of_type(drawing, Box)]
    assert styles[1] == styles[3] and styles[2] == styles[4]
    assert len({style[0] for style in styles}) == 4
    assert ["strong" in style for style in styles] == [False, True, True, True, True, False]
    assert [text.text for text in of_type(drawing, Text) if text.style == "badge"] == ["used 2x"] * 4


def test_the_most_used_programs_get_the_colours():
    numbers = [*range(1, COLOURS + 5), COLOURS + 4]
    step = make_step([f"s{number}" for number in range(len(numbers))], numbers)
    colours = colour_of(step.programs)
    style = to_svg(draw_step(step))
    assert [f".colour{rank} {{" in style for rank in range(COLOURS + 1)] == [True] * COLOURS + [False]
    assert colours[COLOURS + 4] == "colour0"
    assert colours[1] == "colour1"
    assert [number for number, colour in colours.items() if colour == "colourless"] == [10, 11, 12, 13]


def test_dots_say_which_region_writes_and_reads_which_cache(layered_step):
    dots = [dot for dot in of_type(draw_step(layered_step), Dot) if dot.style.startswith("cache")]
    assert [(dot.style, dot.title) for dot in dots] == [
        ("cache updates", "layers.0.attention updates cache.window"),
        ("cache reads", "layers.1.attention reads cache.window"),
        ("cache updates", "layers.1.attention updates cache.state"),
    ]
    assert dots[0].x == dots[1].x < dots[2].x
    assert dots[1].y == dots[2].y > dots[0].y


def test_every_pair_of_regions_is_joined_and_says_what_crosses(layered_step):
    titles = [line.title.splitlines() for line in of_type(draw_step(layered_step), Line) if line.style == "value"]
    names = [region.name for region in layered_step.regions]
    expected = {f"{names[one.maker]} → {names[one.user]}" for one in layered_step.handoffs}
    assert {title[0] for title in titles} == expected
    assert all(title[1].endswith("float32[64], 256 B") for title in titles)


@pytest.mark.parametrize(
    "names",
    [
        ["whole"],
        [],
        ["a" * 300],
        ["层" * 80, "<b>&'\""],
        ["x"] * 200,
        [f"layers.{i // 3}.{'abc'[i % 3]}" for i in range(200)],
    ],
    ids=["whole", "nothing", "long", "wide", "equal", "layers"],
)
def test_any_names_and_numbers_fit_the_page(names):
    count = len(names)
    step = make_step(
        names,
        [1 + index % 3 for index in range(count)],
        [(index, index + jump) for index in range(count) for jump in (1, 3) if index + jump < count],
        caches=["c" * 100, "d"] if names else [],
        uses=[("c" * 100, index, True) for index in range(count)] + [("d", index, False) for index in range(count)],
    )
    check(draw_step(step))


@settings(deadline=None, max_examples=40)
@given(st.data())
def test_lines_keep_apart_whatever_the_regions_need(data):
    names = data.draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=12))
    count = len(names)
    pairs = [(maker, user) for user in range(count) for maker in range(user)]
    edges = data.draw(st.lists(st.sampled_from(pairs), max_size=20)) if pairs else []
    regions = st.integers(0, count - 1)
    uses = data.draw(st.lists(st.tuples(st.sampled_from(["c", "d"]), regions, st.booleans()), max_size=6))
    caches = list(dict.fromkeys(cache for cache, _, _ in uses))
    drawing = draw_step(make_step(names, [1] * count, edges, caches, uses))
    check(drawing)
    check_tracks(drawing)


def test_a_cache_that_no_region_uses_is_named_all_the_same():
    drawing = draw_step(make_step(["whole"], [1], caches=["used", "spare"], uses=[("used", 0, True)]))
    check(drawing)
    assert "spare, 4.0 KiB" in {text.text for text in of_type(drawing, Text)}


def test_lines_grow_with_bytes():
    assert line_width(0) == line_width(64) == 1
    assert line_width(1024) == 2
    assert line_width(1 << 40) == 5
