"""A drawing as SVG without script, font or link."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from .shapes import Box, Dot, Drawing, Line, Point, Shape, Text
from .templates import render


@dataclass(frozen=True)
class _Element:
    tag: str
    attributes: dict[str, str]
    title: str = ""
    text: str = ""


def to_svg(drawing: Drawing, with_style: bool = True) -> Markup:
    """The markup of a drawing; without its style for a page that has it (``page.html.jinja`` does)."""
    elements = [element for shape in drawing.shapes for element in _elements(shape)]
    return render("explain/drawing/picture.svg.jinja", drawing=drawing, elements=elements, with_style=with_style)


def _elements(shape: Shape) -> Iterator[_Element]:
    match shape:
        case Box():
            place = {"x": shape.x, "y": shape.y, "width": shape.width, "height": shape.height, "rx": shape.radius}
            yield _Element("rect", _attributes(shape.style, **place), shape.title)
        case Dot():
            yield _Element("circle", _attributes(shape.style, cx=shape.x, cy=shape.y, r=shape.radius), shape.title)
        case Text():
            numbers = _attributes(shape.style, x=shape.x, y=shape.y, font_size=shape.size)
            yield _Element("text", {**numbers, "text-anchor": shape.anchor}, text=shape.text)
        case Line():
            numbers = _attributes(shape.style, stroke_width=shape.width)
            yield _Element("polyline", {**numbers, "points": _points(shape.points)}, shape.title)
            if shape.arrow:
                yield _Element("polygon", {"class": "head", "points": _points(_head(shape))})


def _attributes(style: str, **numbers: float) -> dict[str, str]:
    return {"class": style, **{name.replace("_", "-"): f"{number:.1f}" for name, number in numbers.items()}}


def _points(points: tuple[Point, ...]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)


def _head(line: Line) -> tuple[Point, ...]:
    """A triangle at the last point, in the direction of the last piece, which is horizontal or vertical."""
    (from_x, from_y), (x, y) = line.points[-2:]
    length, half = 5 + line.width, 2 + line.width
    if from_y == y:
        back = x - length if from_x < x else x + length
        return (x, y), (back, y - half), (back, y + half)
    back = y - length if from_y < y else y + length
    return (x, y), (x - half, back), (x + half, back)
