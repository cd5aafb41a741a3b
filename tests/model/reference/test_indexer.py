import torch
from deepinfer_neuron.model.reference.indexer import candidate_mask


def masked(scores, visible):
    return scores.masked_fill(torch.arange(scores.shape[1]) >= visible[:, None], -torch.inf)


def test_best_blocks_and_always_the_newest():
    scores = torch.tensor([[9.0, 0, 0, 0, 5, 0, 7, 0, -1, -2]])
    visible = torch.tensor([9])
    kept = candidate_mask(masked(scores, visible), visible, kept_blocks=2, block_size=2)
    assert kept.tolist() == [[True, True, False, False, False, False, False, False, True, True]]


def test_blocks_without_a_visible_row_are_never_kept():
    scores = torch.ones(2, 6)
    visible = torch.tensor([0, 3])
    kept = candidate_mask(masked(scores, visible), visible, kept_blocks=3, block_size=2)
    assert kept.tolist() == [[False] * 6, [True, True, True, True, False, False]]


def test_equal_blocks_go_to_the_lower_one_and_the_last_may_be_short():
    scores = torch.ones(1, 7)
    kept = candidate_mask(scores, torch.tensor([7]), kept_blocks=2, block_size=3)
    assert kept.tolist() == [[True, True, True, False, False, False, True]]
