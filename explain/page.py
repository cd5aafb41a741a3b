"""The pictures and tables of compiled steps as one HTML page that stands alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError
from ..files import write_text
from .drawing.svg import to_svg
from .drawing.templates import render
from .picture import draw_step
from .step import ExplainedStep
from .tables import step_tables

SUFFIXES = (".html", ".svg")


def check_picture_path(path: Path) -> None:
    """Raise InputError unless the file name says that it is HTML or SVG."""
    if path.suffix not in SUFFIXES:
        raise InputError(f"{path} has the suffix {path.suffix!r}: a picture is written as .html or .svg")


def write_picture(path: Path, steps: Sequence[ExplainedStep]) -> None:
    """Write every batch size with its tables as HTML, or the largest alone as SVG, by the suffix of ``path``.

    The file is written whole or not at all. Raises InputError for another suffix, or if there is no step.
    """
    check_picture_path(path)
    if not steps:
        raise InputError(f"there is nothing to draw in {path}: no batch size was compiled")
    write_text(path, to_page(steps) if path.suffix == ".html" else to_svg(draw_step(steps[-1])))


def to_page(steps: Sequence[ExplainedStep]) -> str:
    """The markup of the page: for each batch size a picture, then passes, regions and programs."""
    sections = [
        {
            "batch_size": step.batch_size,
            "picture": to_svg(draw_step(step), with_style=False),
            "tables": step_tables(step),
        }
        for step in steps
    ]
    return render("explain/steps.html.jinja", title="Compiled decode step", sections=sections)
