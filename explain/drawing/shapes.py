"""Shapes of a picture in pixels, y growing downwards, and how wide a text is."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass

Point = tuple[float, float]

ADVANCE = 0.62
"""Width of a character of a monospaced font in units of its size, on the safe side."""


@dataclass(frozen=True)
class Box:
    """A rectangle with round corners; ``title`` is shown when a pointer rests on it."""

    x: float
    y: float
    width: float
    height: float
    style: str
    title: str = ""
    radius: float = 6


@dataclass(frozen=True)
class Line:
    """Straight pieces through ``points``; ``arrow`` puts a head at the last one."""

    points: tuple[Point, ...]
    width: float
    style: str
    title: str = ""
    arrow: bool = False


@dataclass(frozen=True)
class Dot:
    """A circle."""

    x: float
    y: float
    radius: float
    style: str
    title: str = ""


@dataclass(frozen=True)
class Text:
    """One line of text on the baseline ``y``; ``anchor`` says which end of it is at ``x``."""

    x: float
    y: float
    text: str
    size: float
    style: str
    anchor: str = "start"

    @property
    def left(self) -> float:
        """Where the text begins."""
        share = {"start": 0.0, "middle": 0.5, "end": 1.0}[self.anchor]
        return self.x - share * text_width(self.text, self.size)

    @property
    def right(self) -> float:
        """Where the text ends."""
        return self.left + text_width(self.text, self.size)


Shape = Box | Line | Dot | Text


@dataclass(frozen=True)
class Drawing:
    """Shapes in the order in which they are painted, on a page of ``width`` by ``height``."""

    width: float
    height: float
    title: str
    shapes: tuple[Shape, ...]


def text_width(text: str, size: float) -> float:
    """Pixels that a line takes at most in a monospaced font."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text) * ADVANCE * size


def fit_text(text: str, width: float, size: float) -> str:
    """``text``, cut and ended with an ellipsis if it is wider than ``width`` pixels."""
    if text_width(text, size) <= width:
        return text
    kept = text
    while kept and text_width(f"{kept}…", size) > width:
        kept = kept[:-1]
    return f"{kept}…"
