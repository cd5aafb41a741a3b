"""Selections: order, ties, visibility, filter."""

import torch
from deepinfer_neuron.model.kernels.indexing import candidate_mask, select_top_rows
from hypothesis import given, settings
from hypothesis import strategies as st


def visible(*counts):
    return torch.tensor(counts, dtype=torch.int32)


def test_ties_go_to_the_lower_index():
    scores = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0]]).bfloat16()
    assert select_top_rows(scores, visible(5), None, 2).tolist() == [[1, 2]]


def test_negative_zero_ties_with_zero():
    scores = torch.tensor([[-0.0, 0.0, -0.0]]).bfloat16()
    assert select_top_rows(scores, visible(3), None, 2).tolist() == [[0, 1]]


def test_rows_that_do_not_exist_yet_are_never_selected():
    scores = torch.tensor([[1.0, 2.0, 9.0, 9.0], [9.0, 1.0, 2.0, 3.0]]).bfloat16()
    assert select_top_rows(scores, visible(2, 0), None, 3).tolist() == [[0, 1, -1], [-1, -1, -1]]


def test_the_newest_block_is_always_a_candidate():
    scores = torch.tensor([[9.0, 8.0, 7.0, 6.0, 1.0, 0.0]]).bfloat16()
    mask = candidate_mask(scores, visible(5), 2, 2)
    assert mask.tolist() == [[True, True, False, False, True, False]]


def test_filtered_rows_are_not_selected():
    scores = torch.tensor([[9.0, 8.0, 7.0, 6.0]]).bfloat16()
    candidates = torch.tensor([[False, True, False, True]])
    assert select_top_rows(scores, visible(4), candidates, 2).tolist() == [[1, 3]]


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_selection_equals_a_sort_by_score_then_index(data):
    width = data.draw(st.integers(1, 40))
    count = data.draw(st.integers(1, 12))
    seen = data.draw(st.integers(0, width))
    values = data.draw(st.lists(st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0]), min_size=width, max_size=width))
    best = sorted(sorted(range(seen), key=lambda index: (-values[index], index))[:count])
    selected = select_top_rows(torch.tensor([values]).bfloat16(), visible(seen), None, count)[0].tolist()
    assert selected == best + [-1] * (count - len(best))
