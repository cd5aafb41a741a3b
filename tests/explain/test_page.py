"""Files that a browser opens."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.explain.drawing.svg import to_svg
from deepinfer_neuron.explain.page import to_page, write_picture
from deepinfer_neuron.explain.picture import draw_step
from deepinfer_neuron.explain.tables import step_tables, summary_table
from explained_steps import make_step

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = "<script>alert('&\"')</script>\x00\x1b\ud800"


def test_svg_has_a_box_with_a_tooltip_for_each_region(layered_step):
    root = ElementTree.fromstring(to_svg(draw_step(layered_step)))
    boxes = root.findall(f"{SVG}rect")
    assert len(boxes) == len(layered_step.regions)
    assert boxes[1].find(f"{SVG}title").text.startswith("1: layers.0.attention\nprogram P2 ")
    assert root.find(f"{SVG}title").text == "Decode step, batch 2, mode regions"
    assert [float(number) for number in root.get("viewBox").split()[2:]] == [
        float(root.get("width")),
        float(root.get("height")),
    ]


def test_names_are_escaped_wherever_they_are_written():
    step = make_step([HOSTILE, "b"], [1, 2], edges=[(0, 1)], caches=[HOSTILE], uses=[(HOSTILE, 0, True)])
    root = ElementTree.fromstring(to_svg(draw_step(step)))
    assert root.findall(f".//{SVG}script") == []
    assert "<script>alert('&\"')" in "".join(root.itertext())
    page = to_page([step])
    assert "<script" not in page
    page.encode()


def test_nothing_is_loaded_from_elsewhere(layered_step):
    page = to_page([layered_step])
    assert page.count("http") == page.count("http://www.w3.org/2000/svg") == 1
    assert not [word for word in ("href", "src=", "url(", "@import", "<script") if word in page]


def test_the_page_has_every_batch_size_and_the_svg_the_largest(layered_step, tmp_path):
    small = make_step(["only"], [1])
    write_picture(tmp_path / "steps.html", [small, layered_step])
    page = (tmp_path / "steps.html").read_text()
    assert page.count("<svg") == 2
    assert page.count("<table>") == 6
    write_picture(tmp_path / "step.svg", [small, layered_step])
    assert (tmp_path / "step.svg").read_text() == to_svg(draw_step(layered_step))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step.svg", "steps.html"]


def test_other_files_and_nothing_to_draw_are_refused(layered_step, tmp_path):
    with pytest.raises(InputError, match=r"written as \.html or \.svg"):
        write_picture(tmp_path / "step.png", [layered_step])
    with pytest.raises(InputError, match="no batch size was compiled"):
        write_picture(tmp_path / "step.svg", [])
    assert list(tmp_path.iterdir()) == []


def test_tables_count_passes_regions_and_programs(layered_step):
    passes, regions, programs = step_tables(layered_step)
    assert passes.rows == ((0, "mark_stages", 2, "12.5"),)
    assert [row[1:3] for row in regions.rows][:2] == [("embed", "P1"), ("layers.0.attention", "P2, used 2x")]
    assert [row[-1] for row in regions.rows] == ["-", "cache.window*", "-", "cache.window, cache.state*", "-", "-"]
    assert [row[7] for row in regions.rows] == ["0 B", "256 B", "256 B", "768 B", "512 B", "256 B"]
    assert [row[2] for row in programs.rows] == [1, 2, 2, 1]
    assert "4 programs for 6 regions" in programs.title


def test_the_summary_has_a_row_for_each_batch_size(layered_step):
    summary = summary_table([make_step(["only"], [1]), layered_step])
    assert summary.title == "Compiled in mode regions"
    counts = ("nodes", "regions", "programs", "stored", "size")
    assert [[row[summary.columns.index(name)] for name in counts] for row in summary.rows] == [
        [3, 1, 1, 1, "2.0 KiB"],
        [18, 6, 4, 1, "8.0 KiB"],
    ]
