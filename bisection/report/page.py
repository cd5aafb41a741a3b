"""``report.html``: the report as a page that stands alone, with pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...explain.drawing import Drawing
from ...explain.markup import markup_text
from ...explain.svg import to_svg
from ..search.result import BisectResult
from .facts import Table, facts_of, tables_of, title_of
from .graph_picture import MOST_NODES, draw_graph
from .history_chart import draw_history
from .minimal_graph import GraphNode
from .picture_style import PICTURE_STYLE
from .program_map import draw_program
from .recipe import Recipe
from .repro import ReproRun
from .source_lines import Excerpt, excerpts

MOST_CHARACTERS = 100_000
"""Of a longer text the beginning is shown."""

_STYLE = """
:root { color-scheme: light dark; --meant: #fff3bf; --faint: #57606a; }
@media (prefers-color-scheme: dark) { :root { --meant: #4d4000; --faint: #a5afba; } }
body { font-family: system-ui, sans-serif; margin: 2em; }
.picture { overflow-x: auto; }
table { border-collapse: collapse; margin: 0.5em 0 1.5em; font-size: 90%; }
th, td { border: 1px solid #8888; padding: 0.15em 0.6em; text-align: left; vertical-align: top; }
td { overflow-wrap: anywhere; }
pre { overflow-x: auto; font-size: 85%; border: 1px solid #8888; padding: 0.6em; max-height: 40em; }
pre .meant { background: var(--meant); }
.note { color: var(--faint); }
"""


def report_page(
    result: BisectResult,
    recipe: Recipe,
    run: ReproRun | None,
    nodes: tuple[GraphNode, ...],
    texts: Sequence[tuple[str, str, str]],
) -> str:
    """The page; see ``report_text`` for the arguments."""
    title = markup_text(title_of(result, nodes))
    sections = "\n".join(_sections(result, recipe, run, nodes, texts))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        f"<style>{_STYLE}</style>\n</head>\n<body>\n<h1>{title}</h1>\n{sections}\n</body>\n</html>\n"
    )


def _sections(
    result: BisectResult,
    recipe: Recipe,
    run: ReproRun | None,
    nodes: tuple[GraphNode, ...],
    texts: Sequence[tuple[str, str, str]],
) -> Iterator[str]:
    yield from _table(Table("", (), tuple(facts_of(result, recipe, run))))
    yield "<h2>The minimal program</h2>"
    if len(nodes) <= MOST_NODES:
        yield f'<div class="picture">\n{_svg(draw_graph(nodes), "graph")}</div>'
    else:
        yield f"<p>It has {len(nodes)} nodes, too many to be drawn.</p>"
    yield "<h2>Where it is in the whole program</h2>"
    yield '<p class="note">Every cell is an operation or a result, in order, a region beginning on a new row. Rest the'
    yield "pointer on one for its text. Full lines join kept operations that read each other, broken ones lead on.</p>"
    yield f'<div class="picture">\n{_svg(draw_program(result.reduction.items, result.reduction.kept), "program")}</div>'
    yield from _sources(result)
    yield "<h2>How it was found</h2>"
    yield '<p class="note">Full dots failed in the wanted way, empty ones did not.</p>'
    yield f'<div class="picture">\n{_svg(draw_history(result.cost.history), "history")}</div>'
    for table in tables_of(result):
        yield from _table(table)
    if result.reduction.simplifications:
        yield "<h2>What was made simpler</h2>\n<ul>"
        yield from (f"<li>{markup_text(one)}</li>" for one in result.reduction.simplifications)
        yield "</ul>"
    if result.evidence.good is not None:
        yield "<h2>The nearest program without the failure</h2>"
        yield f"<p>good.mlir has {result.evidence.good.size} operations.</p>"
    for name, file, content in texts:
        yield f"<h2>{markup_text(name)}</h2>"
        yield f"<pre>{markup_text(content[:MOST_CHARACTERS])}</pre>"
        if len(content) > MOST_CHARACTERS:
            yield f"<p>The beginning; all of it is in {markup_text(file)}.</p>"
    if run is not None:
        yield f"<h2>repro.py: {markup_text(run.meaning)}</h2>\n<pre>{markup_text(run.output[-MOST_CHARACTERS:])}</pre>"


def _svg(drawing: Drawing, name: str) -> str:
    return to_svg(drawing, name, PICTURE_STYLE[name])


def _sources(result: BisectResult) -> Iterator[str]:
    lines = [item.line for item in result.reduction.kept_items]
    found = excerpts(line for line in lines if line)
    if found:
        yield "<h2>Lines of the model</h2>"
    for one in found:
        yield f"<h3>{markup_text(one.file)}</h3>\n<pre>{_excerpt(one)}</pre>"


def _excerpt(excerpt: Excerpt) -> str:
    rows = []
    for line in excerpt.lines:
        text = markup_text(f"{line.number:5} {line.text}")
        rows.append(f'<span class="meant">{text}</span>' if line.is_meant else text)
    return "\n".join(rows)


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"<h2>{markup_text(table.title)}</h2>"
    yield "<table>"
    if table.columns:
        yield f"<tr>{''.join(f'<th>{markup_text(column)}</th>' for column in table.columns)}</tr>"
    for row in table.rows:
        yield f"<tr>{''.join(f'<td>{markup_text(cell)}</td>' for cell in row)}</tr>"
    yield "</table>"
