"""Values are text wherever they are written, and templates are installed with the package."""

from __future__ import annotations

import tomllib
from pathlib import Path

import deepinfer_neuron
import pytest
from deepinfer_neuron.explain.drawing.shapes import Box, Drawing, Line
from deepinfer_neuron.explain.drawing.svg import to_svg
from deepinfer_neuron.explain.drawing.templates import render
from deepinfer_neuron.reporting import Table
from jinja2 import UndefinedError

ROOT = Path(deepinfer_neuron.__file__).parent
PAGE = "explain/drawing/page.html.jinja"


def test_titles_are_escaped_and_odd_characters_replaced():
    page = render(PAGE, title="<b>&\"'\x00\x1b\ud800\ufffe")
    assert "<title>&lt;b&gt;&amp;&#34;&#39;\ufffd\ufffd\ufffd\ufffd</title>" in page


def test_a_value_that_is_missing_is_an_error():
    with pytest.raises(UndefinedError, match="title"):
        render(PAGE)


def test_cells_are_escaped_and_numbers_stand_right():
    steps = [{"batch_size": 1, "picture": "", "tables": [Table("t", ("<i>", "n"), (("<b>", 1024),))]}]
    page = render("explain/steps.html.jinja", title="", sections=steps)
    assert "<tr><th>&lt;i&gt;</th><th>n</th></tr>" in page
    assert '<tr><td>&lt;b&gt;</td><td class="number">1024</td></tr>' in page


def test_a_class_cannot_leave_its_attribute():
    svg = to_svg(Drawing(1, 1, "", (Box(0, 0, 1, 1, '"><script>'), Line(((0, 0), (1, 0)), 1, "value", arrow=True))))
    assert "<script" not in svg and svg.count('class="head"') == 1


def test_templates_are_installed_with_their_package():
    setuptools = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    assert setuptools["package-data"] == {"*": ["*.jinja"]}
    templates = [one.relative_to(ROOT) for one in ROOT.rglob("*.jinja") if one.relative_to(ROOT).parts[0] != ".venv"]
    assert len(templates) >= 6
    for template in templates:
        assert ".".join(["deepinfer_neuron", *template.parent.parts]) in setuptools["packages"]
