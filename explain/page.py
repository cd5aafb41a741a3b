"""The pictures and tables of compiled steps as one HTML page that stands alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from ..errors import InputError
from ..files import write_text
from ..reporting import Table
from .markup import markup_text
from .picture import draw_step
from .step import ExplainedStep
from .svg import to_svg
from .tables import step_tables

SUFFIXES = (".html", ".svg")

_STYLE = """
:root { color-scheme: light dark; }
body { font-family: system-ui, sans-serif; margin: 2em; }
.picture { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; font-size: 90%; }
th, td { border: 1px solid #8888; padding: 0.15em 0.6em; text-align: left; }
td.number { text-align: right; }
"""


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
    sections = "\n".join(line for step in steps for line in _section(step))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Compiled decode step</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>Compiled decode step</h1>\n{sections}\n</body>\n</html>\n"
    )


def _section(step: ExplainedStep) -> Iterator[str]:
    yield f"<h2>Batch {step.batch_size}</h2>"
    yield "<p>Rest the pointer on a box or a line for its details.</p>"
    yield f'<div class="picture">\n{to_svg(draw_step(step))}</div>'
    for table in step_tables(step):
        yield from _table(table)


def _table(table: Table) -> Iterator[str]:
    yield f"<h3>{markup_text(table.title)}</h3>\n<table>"
    yield f"<tr>{''.join(f'<th>{markup_text(column)}</th>' for column in table.columns)}</tr>"
    for row in table.rows:
        yield f"<tr>{''.join(map(_cell, row))}</tr>"
    yield "</table>"


def _cell(value: object) -> str:
    kind = ' class="number"' if isinstance(value, int) else ""
    return f"<td{kind}>{markup_text(str(value))}</td>"
