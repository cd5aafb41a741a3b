"""``report.md``: the text that an engineer sends to those who make the compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ...reporting import Table
from ..search.result import BisectResult
from .facts import model_lines, summary_rows, tables_of, title_of
from .minimal_graph import GraphNode
from .recipe import Recipe
from .repro import SCRIPT, ReproRun

SHORT_LINES = 60
"""Longer texts are shown to their first lines: a bug tracker does not take all of them."""

HEAD_LINES = 25


def report_text(
    result: BisectResult,
    recipe: Recipe,
    run: ReproRun | None,
    nodes: tuple[GraphNode, ...],
    texts: Sequence[tuple[str, str, str]],
) -> str:
    """The report as Markdown.

    Args:
        result: what was found.
        recipe: how the compiler is started.
        run: what came of ``repro.py``; None if it was not run.
        nodes: of the minimal program.
        texts: title, file name and content of each form of the minimal program that people can read.
    """
    lines = [f"# {_inline(title_of(result, nodes))}", ""]
    lines += [f"* {name}: {_code(value)}" for name, value in summary_rows(result, recipe, run)]
    lines += _section("How to repeat it", _repeat(run))
    for title, file, content in texts:
        lines += _section(title, _shown(file, content))
    places = tuple((f"`{line}`", _code(text)) for line, text in model_lines(result))
    lines += _table(Table("Lines of the model", ("line", "operation"), places))
    for table in tables_of(result):
        rows = tuple(tuple(_cell(str(cell)) for cell in row) for row in table.rows)
        lines += _table(Table(table.title, table.columns, rows))
    if result.reduction.simplifications:
        lines += _section("What was made simpler", (f"* {_inline(one)}" for one in result.reduction.simplifications))
    if result.evidence.good is not None:
        good = f"`good.mlir` has {result.evidence.good.size} operations and does not fail in this way."
        lines += _section("The nearest program without the failure", [good])
    return "\n".join(lines) + "\n"


def _repeat(run: ReproRun | None) -> Iterator[str]:
    yield f"`python {SCRIPT}` needs Python 3.11 or later and the compiler. It ends with status 0 if the compiler fails"
    yield "as above, 1 if it compiles, 2 if it fails in another way, 3 if it cannot be started."
    if run is not None:
        yield ""
        yield from _fenced(run.output, "text")


def _shown(file: str, content: str) -> Iterator[str]:
    """The whole text, or its beginning and where the rest is."""
    lines = content.splitlines()
    if len(lines) <= SHORT_LINES:
        yield from _fenced(content, "text")
        return
    yield from _fenced("\n".join(lines[:HEAD_LINES]), "text")
    yield f"The first {HEAD_LINES} of {len(lines)} lines; all are in `{file}`."


def _section(title: str, lines: Iterator[str] | Sequence[str]) -> list[str]:
    return ["", f"## {title}", "", *lines]


def _table(table: Table) -> list[str]:
    """A table whose cells are Markdown; nothing without rows."""
    if not table.rows:
        return []
    rows = [table.columns, ("---",) * len(table.columns), *table.rows]
    return _section(table.title, [f"| {' | '.join(row)} |" for row in rows])


def _cell(text: str) -> str:
    return _inline(text) if re.fullmatch(r"[\w ,.]*", text) else _code(text)


def _inline(text: str) -> str:
    """Text on one line of which nothing is taken for Markdown or HTML."""
    return re.sub(r"([\\`*_{}\[\]<>#|~])", r"\\\1", _one_line(text))


def _code(text: str) -> str:
    """A code span, with a fence that is longer than any in the text; table cells may hold it."""
    line = _one_line(text).replace("|", "\\|")
    fence = "`" * (1 + _longest_fence(line))
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{fence}{space}{line}{space}{fence}" if line else ""


def _fenced(text: str, language: str) -> Iterator[str]:
    fence = "`" * max(3, 1 + _longest_fence(text))
    yield f"{fence}{language}"
    yield from ("".join(one if one.isprintable() or one == "\t" else "?" for one in line) for line in text.splitlines())
    yield fence


def _longest_fence(text: str) -> int:
    return max(map(len, re.findall("`+", text)), default=0)


def _one_line(text: str) -> str:
    return " ".join("".join(one if one.isprintable() else " " for one in text).split())
