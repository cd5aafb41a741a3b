"""The page of a result is well-formed, stands alone and stays small."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from bisect_results import history, make_result, program, shell_recipe, traced
from deepinfer_neuron.bisection.probes.verdict import Signature
from deepinfer_neuron.bisection.report.minimal_graph import GraphNode, nodes_of
from deepinfer_neuron.bisection.report.page import report_page
from deepinfer_neuron.bisection.report.repro import ReproRun
from deepinfer_neuron.bisection.subjects.subject import Item

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('&\"')</script>\x00\x1b\ud800"
TEXTS = [("The minimal program in StableHLO", "minimal.mlir", "module {}\n")]


def page_of(result, texts=TEXTS, nodes=None):
    nodes = nodes_of(result.reduction.minimal) if nodes is None else nodes
    return report_page(result, shell_recipe("exit 1"), ReproRun(0, "REPRODUCED"), nodes, texts)


def pictures(page: str) -> list[ElementTree.Element]:
    return [ElementTree.fromstring(text) for text in re.findall(r"<svg .*?</svg>", page, re.DOTALL)]


def test_three_pictures_share_the_style_of_the_page():
    page = page_of(make_result(minimal=traced()))
    found = pictures(page)
    assert [one.find(f"{SVG}title").text for one in found] == [
        "Graph of 4 nodes",
        "14 operations and results, 2 of them kept",
        "Sizes over probes",
    ]
    style = page.partition("<style>")[2].partition("</style>")[0]
    assert page.count("<style>") == 1
    assert "prefers-color-scheme: dark" in style
    assert style.count("{") == style.count("}")
    classes = {one for picture in found for shape in picture.iter() for one in shape.get("class", "").split()}
    assert {"cell", "kept", "result", "joined", "failed", "passed", "colour2", "strong"} <= classes
    assert {one for one in classes if f".{one}" not in style} == {"detail"}


def test_the_first_column_of_a_table_breaks_between_words_only():
    rules = [line for line in page_of(make_result()).splitlines() if "overflow-wrap" in line]
    assert rules == ["td + td { overflow-wrap: anywhere; }"]


def test_the_body_is_well_formed():
    page = page_of(make_result(minimal=traced()))
    body = page[page.index("<body>") : page.index("</body>") + len("</body>")]
    ElementTree.fromstring(body)


def test_every_item_has_a_cell_that_says_what_it_is():
    result = make_result()
    picture = pictures(page_of(result))[1]
    cells = picture.findall(f"{SVG}rect")
    titles = [cell.find(f"{SVG}title").text for cell in cells]
    assert titles[:12] == [f"{item.text}\n{item.line}" for item in result.reduction.items[:12]]
    assert [number for number, cell in enumerate(cells) if cell.get("class") == "kept"] == [3, 8]
    assert [number for number, cell in enumerate(cells) if cell.get("class") == "result"] == [12, 13]


def test_the_models_lines_are_marked_in_their_surroundings():
    items = program()
    items[3] = Item("%op_3", "text", "errors.py:10")
    items[8] = Item("%op_8", "text", "errors.py:14")
    page = page_of(make_result(items=items))
    section = page.partition("<h3>errors.py</h3>")[2].partition("</pre>")[0]
    assert '<span class="meant">   10 class DeepInferNeuronError(Exception):</span>' in section
    assert [int(line) for line in re.findall(r"^(?:<pre>)?(?:<span[^>]*>)? +(\d+) ", section, re.MULTILINE)] == [
        *range(7, 18)
    ]
    assert "moe.py</h3>" not in page


def test_names_are_escaped_wherever_they_are_written():
    items = [Item(HOSTILE, HOSTILE, HOSTILE, HOSTILE), Item(HOSTILE, HOSTILE, HOSTILE, HOSTILE, (0,), True)]
    result = make_result(
        items=items,
        kept=(0,),
        subject=HOSTILE,
        signature=Signature("error", HOSTILE, HOSTILE),
        removals=(HOSTILE,),
        simplifications=(HOSTILE,),
        introduced_by=HOSTILE,
    )
    nodes = (GraphNode(HOSTILE, HOSTILE, HOSTILE, HOSTILE, (), True),)
    page = page_of(result, [(HOSTILE, HOSTILE, HOSTILE)], nodes)
    assert "<script" not in page
    assert len(pictures(page)) == 3
    page.encode()


def test_nothing_is_loaded_from_elsewhere():
    page = page_of(make_result(minimal=traced()))
    assert page.count("http") == page.count("http://www.w3.org/2000/svg") == 3
    assert not [word for word in ("href", "src=", "url(", "@import", "<script") if word in page]


@pytest.mark.parametrize("count", [800, 5000])
def test_a_large_program_makes_a_page_of_less_than_two_megabytes(count):
    long = " : (" + "bf16[4, 512], " * 40 + ")"
    items = [
        Item(one.name, one.text + long, one.line, one.group, one.reads, one.is_result) for one in program(count, 90)
    ]
    answers = [(max(1, count - number), number % 3 == 0) for number in range(2000)]
    result = make_result(items=items, kept=(3, count // 2, count - 1), history=history([(count, True), *answers]))
    page = page_of(result, [("T", "f", "x" * 500_000)])
    assert len(page.encode()) < 2_000_000
    assert len(pictures(page)[1].findall(f"{SVG}rect")) == count + 2


def test_a_graph_that_is_too_large_is_not_drawn():
    nodes = tuple(GraphNode(f"%{n}", "aten.add.Tensor", "f32[4]", "", (n - 1,) if n else (), False) for n in range(81))
    page = page_of(make_result(), nodes=nodes)
    assert "81 nodes, too many to be drawn" in page
    assert len(pictures(page)) == 2
