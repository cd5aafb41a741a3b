"""The lines of the model that kept operations come from, with a few around them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PACKAGE = Path(__file__).parents[2]
AROUND = 3

_LINE = re.compile(r"(?P<file>.+):(?P<number>\d+)")


@dataclass(frozen=True)
class ExcerptLine:
    """A line of a file; ``is_meant`` if an operation comes from it."""

    number: int
    text: str
    is_meant: bool


@dataclass(frozen=True)
class Excerpt:
    """Lines of one file that follow each other."""

    file: str
    lines: tuple[ExcerptLine, ...]


def excerpts(places: Iterable[str], root: Path = PACKAGE) -> list[Excerpt]:
    """The lines such as ``model/moe.py:80`` that exist below ``root``; those near each other in one excerpt."""
    numbers: dict[str, set[int]] = {}
    for place in places:
        match = _LINE.fullmatch(place)
        if match:
            numbers.setdefault(match["file"], set()).add(int(match["number"]))
    return [one for file, meant in numbers.items() for one in _of_file(file, meant, root)]


def _of_file(file: str, meant: set[int], root: Path) -> list[Excerpt]:
    path = (root / file).resolve()
    if not path.is_relative_to(root.resolve()) or not path.is_file():
        return []
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    shown = sorted({near for one in meant if 1 <= one <= len(lines) for near in range(one - AROUND, one + AROUND + 1)})
    found: list[list[ExcerptLine]] = []
    for number in shown:
        if 1 <= number <= len(lines):
            line = ExcerptLine(number, lines[number - 1], number in meant)
            if found and found[-1][-1].number == number - 1:
                found[-1].append(line)
            else:
                found.append([line])
    return [Excerpt(file, tuple(one)) for one in found]
