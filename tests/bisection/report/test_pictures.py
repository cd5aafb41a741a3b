"""The pictures are measured, since nobody looks at them in a test."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from bisect_results import history, program
from deepinfer_neuron.bisection.report.graph_picture import draw_graph
from deepinfer_neuron.bisection.report.history_chart import draw_history
from deepinfer_neuron.bisection.report.minimal_graph import GraphNode
from deepinfer_neuron.bisection.report.program_map import COLUMNS, draw_program
from deepinfer_neuron.explain.drawing.shapes import Box, Dot, Drawing, Line, Text
from hypothesis import given, settings
from hypothesis import strategies as st


def frame(shape) -> tuple[float, float, float, float]:
    match shape:
        case Box():
            return shape.x, shape.y, shape.x + shape.width, shape.y + shape.height
        case Line():
            xs, ys = zip(*shape.points, strict=True)
            return min(xs), min(ys), max(xs), max(ys)
        case Dot():
            return shape.x - shape.radius, shape.y - shape.radius, shape.x + shape.radius, shape.y + shape.radius
        case Text():
            return shape.left, shape.y - shape.size, shape.right, shape.y


def frames(shapes) -> np.ndarray:
    return np.array([frame(shape) for shape in shapes], dtype=float).reshape(-1, 4)


def of_type(drawing: Drawing, kind: type) -> list:
    return [shape for shape in drawing.shapes if isinstance(shape, kind)]


def crossing(left: np.ndarray, right: np.ndarray) -> np.ndarray:
    left, right = left[:, None], right[None]
    return ((left[..., :2] < right[..., 2:]) & (left[..., 2:] > right[..., :2])).all(-1)


def check_inside(drawing: Drawing) -> None:
    every = frames(drawing.shapes)
    assert (every[:, :2] >= -0.01).all()
    assert (every[:, 2:] <= (drawing.width + 0.01, drawing.height + 0.01)).all()


def pieces(line: Line) -> list[Line]:
    return [Line(pair, line.width, line.style) for pair in pairwise(line.points)]


def check_graph(nodes: list[GraphNode]) -> None:
    drawing = draw_graph(nodes)
    check_inside(drawing)
    boxes, texts, lines = (of_type(drawing, kind) for kind in (Box, Text, Line))
    assert len(boxes) == len(nodes)
    box_frames, text_frames = frames(boxes), frames(texts)
    assert (crossing(box_frames, box_frames) == np.eye(len(boxes))).all()
    inside = crossing(box_frames, text_frames)
    assert (inside.sum(1) == 2).all() and (inside.sum(0) == 1).all()
    flat = [piece for line in lines for piece in pieces(line)]
    if flat:
        straight = frames(flat)
        assert (straight[:, :2] == straight[:, 2:]).any(-1).all(), "every piece is horizontal or vertical"
        assert not crossing(box_frames, straight).any(), "no line goes through a box"
    names = {box.title.splitlines()[1].partition(" : ")[0]: box for box in boxes}
    for node in nodes:
        for source in node.reads:
            assert names[nodes[source].name].y < names[node.name].y
    assert sum(line.arrow for line in lines) == sum(len(node.reads) for node in nodes)


def node(number: int, reads=(), operator: str = "aten.add.Tensor", type_: str = "f32[4]") -> GraphNode:
    return GraphNode(f"%n_{number}", operator, type_, "model/moe.py:80", tuple(reads), False)


def test_a_pair_far_apart_and_its_inputs():
    check_graph([node(0, (), "input"), node(1, (0,)), node(2, (), "input"), node(3, (2, 1)), node(4, (0, 3))])


@pytest.mark.parametrize("nodes", [[], [node(0)], [node(0, (), "a" * 300, "b" * 300), node(1, (0,))]])
def test_odd_graphs_are_drawn(nodes):
    check_graph(nodes)


@settings(deadline=None, max_examples=60)
@given(st.data())
def test_any_graph_is_drawn_without_overlaps(data):
    count = data.draw(st.integers(1, 16))
    nodes = [
        node(number, sorted(data.draw(st.sets(st.integers(0, number - 1), max_size=4)) if number else ()))
        for number in range(count)
    ]
    check_graph(nodes)


@pytest.mark.parametrize(("count", "regions"), [(12, 3), (800, 1), (800, 90), (5000, 90)])
def test_cells_keep_apart_and_regions_begin_on_new_rows(count, regions):
    items = program(count, regions)
    drawing = draw_program(items, (3, count // 2, count - 1))
    check_inside(drawing)
    cells = of_type(drawing, Box)
    assert len(cells) == len(items)
    places = [(cell.y, cell.x) for cell in cells]
    assert places == sorted(places) and len(set(places)) == len(places)
    assert len({cell.x for cell in cells}) <= COLUMNS
    rows = {}
    for item, cell in zip(items, cells, strict=True):
        rows.setdefault(cell.y, set()).add(item.group)
    assert all(len(groups) == 1 for groups in rows.values())
    texts = frames(of_type(drawing, Text))
    assert not crossing(frames(cells), texts).any()
    assert (crossing(texts, texts) == np.eye(len(texts))).all()


def test_kept_items_are_joined():
    lines = of_type(draw_program(program(), (2, 3, 11)), Line)
    assert [(line.style, line.title) for line in lines] == [("joined", "%op_2 → %op_3"), ("next", "%op_3 → %op_11")]
    assert of_type(draw_program(program(300), range(300)), Line) == []


def test_sizes_fall_with_the_probes():
    points = history([(800, True), (400, True), (200, False), (300, True), (1, False)])
    drawing = draw_history(points)
    check_inside(drawing)
    dots = of_type(drawing, Dot)
    assert [dot.style for dot in dots] == ["failed", "failed", "passed", "failed", "passed"]
    assert [dot.x for dot in dots] == sorted(dot.x for dot in dots)
    assert dots[0].y < dots[1].y < dots[3].y < dots[2].y < dots[4].y
    (best,) = [line for line in of_type(drawing, Line) if line.style == "best"]
    assert best.points[0] == (dots[0].x, dots[0].y)
    assert best.points[-1] == (dots[4].x, dots[3].y)
    assert (dots[1].x, dots[1].y) in best.points and (dots[3].x, dots[3].y) in best.points


@pytest.mark.parametrize(
    "answers", [[], [(1, True)], [(0, False)], [(5000, True)] * 3000], ids=["none", "one", "empty", "many"]
)
def test_odd_histories_are_drawn(answers):
    points = history([(7, True), *answers]) if answers else ()
    drawing = draw_history(points)
    check_inside(drawing)
    assert len(of_type(drawing, Dot)) == len(points)
    assert all(dot.title for dot in of_type(drawing, Dot)) == (len(points) <= 1000)
