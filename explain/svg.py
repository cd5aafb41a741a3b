"""A drawing as SVG that stands alone: no script, no font, no link."""

from __future__ import annotations

from .drawing import Box, Dot, Drawing, Line, Shape, Text
from .markup import markup_text

FILLS = (
    ("#c3e6c8", "#2f9e44", "#1e5a30"),
    ("#cfe2ff", "#2f6fd6", "#1f4580"),
    ("#ffd8a8", "#d9730d", "#7a4208"),
    ("#f7c6d4", "#d6336c", "#84294b"),
    ("#ded2f7", "#7048e8", "#4b3391"),
    ("#fff0a0", "#b89600", "#665a00"),
    ("#b8ecec", "#0c939b", "#0d5c62"),
    ("#e6d0bb", "#8f5a2c", "#5f3d20"),
    ("#d3dce6", "#5c6f82", "#42526a"),
    ("#e4f0b0", "#7f9a1a", "#4c5c15"),
)
"""Colours of programs by rank: fill on a light page, border, fill on a dark page."""

STYLE = "\n".join(
    [
        "svg.step { background: #fff; font-family: ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace; }",
        ".step text { fill: #1b1f24; } .step .note { fill: #57606a; }",
        ".step .title, .step .name, .step .badge { font-weight: bold; }",
        ".step .region { stroke-width: 1; } .step .shared { stroke-width: 2.5; }",
        ".step .colourless { fill: #eee; stroke: #888; }",
        *(f".step .colour{rank} {{ fill: {light}; stroke: {edge}; }}" for rank, (light, edge, _) in enumerate(FILLS)),
        ".step polyline { fill: none; stroke-linejoin: round; } .step .value { stroke: #57606a; }",
        ".step .lane { stroke: #8c959f; } .step .junction { fill: #8c959f; } .step .head { fill: #57606a; }",
        ".step .lifeline { stroke: #b0762b; stroke-dasharray: 3 3; } .step .cache { stroke: #b0762b; }",
        ".step .updates { fill: #b0762b; } .step .reads { fill: #fff; }",
        "@media (prefers-color-scheme: dark) {",
        "svg.step { background: #0d1117; } .step text { fill: #f0f3f6; } .step .note { fill: #a5afba; }",
        ".step .colourless { fill: #333; }",
        *(f".step .colour{rank} {{ fill: {dark}; }}" for rank, (_, _, dark) in enumerate(FILLS)),
        ".step .value { stroke: #a5afba; } .step .head { fill: #a5afba; } .step .reads { fill: #0d1117; }",
        "}",
    ]
)


def to_svg(drawing: Drawing, name: str = "step", style: str = STYLE) -> str:
    """The markup of a drawing; texts are escaped. Rules of ``style`` begin with the class ``name``."""
    size = f'width="{drawing.width:.0f}" height="{drawing.height:.0f}"'
    view = f'viewBox="0 0 {drawing.width:.0f} {drawing.height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="{name}" role="img" {size} {view}>',
        f"<title>{markup_text(drawing.title)}</title>",
        f"<style>\n{style}\n</style>",
        *map(_shape, drawing.shapes),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _shape(shape: Shape) -> str:
    match shape:
        case Box():
            place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}"'
            return f'<rect class="{shape.style}" {place} rx="{shape.radius:.0f}">{_title(shape.title)}</rect>'
        case Dot():
            place = f'cx="{shape.x:.1f}" cy="{shape.y:.1f}" r="{shape.radius:.1f}"'
            return f'<circle class="{shape.style}" {place}>{_title(shape.title)}</circle>'
        case Text():
            place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size:.0f}" text-anchor="{shape.anchor}"'
            return f'<text class="{shape.style}" {place}>{markup_text(shape.text)}</text>'
        case Line():
            return _line(shape)


def _line(line: Line) -> str:
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in line.points)
    width = f'stroke-width="{line.width:.1f}"'
    drawn = f'<polyline class="{line.style}" points="{points}" {width}>{_title(line.title)}</polyline>'
    return drawn + _head(line) if line.arrow else drawn


def _head(line: Line) -> str:
    """A triangle at the last point, in the direction of the last piece, which is horizontal or vertical."""
    (from_x, from_y), (x, y) = line.points[-2:]
    length, half = 5 + line.width, 2 + line.width
    if from_y == y:
        back = x - length if from_x < x else x + length
        corners = ((x, y), (back, y - half), (back, y + half))
    else:
        back = y - length if from_y < y else y + length
        corners = ((x, y), (x - half, back), (x + half, back))
    points = " ".join(f"{one:.1f},{other:.1f}" for one, other in corners)
    return f'<polygon class="head" points="{points}"/>'


def _title(text: str) -> str:
    return f"<title>{markup_text(text)}</title>" if text else ""
