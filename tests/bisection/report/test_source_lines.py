"""Lines of files, for those who have them."""

from __future__ import annotations

from deepinfer_neuron.bisection.report.source_lines import excerpts


def test_near_lines_make_one_excerpt_and_far_ones_two(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "moe.py").write_text("".join(f"line {n}\n" for n in range(1, 51)))
    found = excerpts(["inner/moe.py:2", "inner/moe.py:7", "inner/moe.py:40", "inner/moe.py:2"], tmp_path)
    assert [[line.number for line in one.lines] for one in found] == [[*range(1, 11)], [*range(37, 44)]]
    assert [line.number for one in found for line in one.lines if line.is_meant] == [2, 7, 40]
    assert found[0].lines[1].text == "line 2"


def test_what_is_not_there_or_not_ours_is_left_out(tmp_path):
    (tmp_path / "secret.py").write_text("password\n")
    root = tmp_path / "root"
    root.mkdir()
    (root / "short.py").write_text("one\n")
    (root / "link.py").symlink_to(tmp_path / "secret.py")
    places = [
        "../secret.py:1",
        "link.py:1",
        str(tmp_path / "secret.py") + ":1",
        "no.py:1",
        "short.py:9",
        "short.py",
        "-:2",
    ]
    assert excerpts(places, root) == []
    assert [one.file for one in excerpts(["short.py:1"], root)] == ["short.py"]
