"""``report.html``: the report as a page that stands alone, with pictures."""

from __future__ import annotations

from collections.abc import Sequence

from ...explain.drawing.svg import to_svg
from ...explain.drawing.templates import render
from ...reporting import Table
from ..search.result import BisectResult
from .facts import summary_rows, tables_of, title_of
from .graph_picture import MOST_NODES, draw_graph
from .history_chart import draw_history
from .minimal_graph import GraphNode
from .program_map import draw_program
from .recipe import Recipe
from .repro import ReproRun
from .source_lines import excerpts

MOST_CHARACTERS = 100_000
"""Of a longer text the beginning is shown."""


def report_page(
    result: BisectResult,
    recipe: Recipe,
    run: ReproRun | None,
    nodes: tuple[GraphNode, ...],
    texts: Sequence[tuple[str, str, str]],
) -> str:
    """The page; see ``report_text`` for the arguments."""
    lines = [item.line for item in result.reduction.kept_items]
    return render(
        "bisection/report/report.html.jinja",
        title=title_of(result, nodes),
        summary=Table("", (), summary_rows(result, recipe, run)),
        nodes=len(nodes),
        graph=to_svg(draw_graph(nodes), with_style=False) if len(nodes) <= MOST_NODES else "",
        program=to_svg(draw_program(result.reduction.items, result.reduction.kept), with_style=False),
        excerpts=excerpts(line for line in lines if line),
        history=to_svg(draw_history(result.cost.history), with_style=False),
        tables=tables_of(result),
        simplifications=result.reduction.simplifications,
        good=result.evidence.good,
        texts=texts,
        most_characters=MOST_CHARACTERS,
        run=run,
    )
