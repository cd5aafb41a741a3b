from __future__ import annotations

from deepinfer_neuron.explain.drawing.shapes import Text, fit_text, text_width


def test_text_is_cut_to_the_room_there_is():
    assert fit_text("attention", 200, 10) == "attention"
    cut = fit_text("attention" * 10, 200, 10)
    assert cut.startswith("attention") and cut.endswith("…")
    assert text_width(cut, 10) <= 200
    assert text_width("层", 10) == 2 * text_width("a", 10)
    assert fit_text("abc", 0, 10) == "…"


def test_the_anchor_says_which_end_is_at_x():
    ends = {anchor: Text(100, 0, "ab", 10, "", anchor) for anchor in ("start", "middle", "end")}
    width = text_width("ab", 10)
    assert [text.left for text in ends.values()] == [100, 100 - width / 2, 100 - width]
    assert [text.right for text in ends.values()] == [100 + width, 100 + width / 2, 100]
