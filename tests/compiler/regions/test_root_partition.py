from __future__ import annotations

from itertools import pairwise, permutations

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.regions.root_partition import RootPartition
from deepinfer_neuron.compiler.regions.root_use import RootUse
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from deepinfer_neuron.runtime.slots import SlotSpec
from hypothesis import given
from hypothesis import strategies as st


def divided(*uses: RootUse) -> tuple[tuple[int, int], ...]:
    """First row of each slice, and the one after the last."""
    slices = RootPartition({"root": frozenset(uses)}).slices()["root"]
    return tuple((rows.first, rows.first + rows.count) for rows in slices)


@pytest.mark.parametrize(
    ("uses", "expected"),
    [
        ([(0, 2), (2, 4), (6, 8)], ((0, 2), (2, 4), (6, 8))),
        ([(0, 2), (0, 2)], ((0, 2),)),
        ([(0, 3), (2, 4), (6, 8)], ((0, 4), (6, 8))),
        ([(0, 8), (2, 4)], ((0, 8),)),
        ([(0, 2), (1, 5), (4, 8)], ((0, 8),)),
    ],
    ids=["apart", "equal", "overlapping", "whole", "chain"],
)
def test_overlapping_uses_are_one_slice(uses, expected):
    for order in permutations(uses):
        assert divided(*(RootUse(8, first, end) for first, end in order)) == expected


def test_slices_begin_and_end_where_the_root_can_be_cut():
    assert divided(RootUse(10, 1, 3, 4), RootUse(10, 8, 10, 4)) == ((0, 4), (8, 10))
    assert divided(RootUse(12, 0, 4, 4), RootUse(12, 6, 9, 3)) == ((0, 12),)


@given(st.lists(st.tuples(st.integers(0, 19), st.integers(1, 5), st.sampled_from([1, 2, 4, 20])), min_size=1))
def test_every_use_lies_in_one_slice_and_slices_are_apart(uses):
    made = [RootUse(20, first, min(first + count, 20), step) for first, count, step in uses]
    slices = divided(*made)
    for use in made:
        assert [first <= use.first and use.end <= end for first, end in slices].count(True) == 1
    for (_, end), (first, _) in pairwise(slices):
        assert end <= first


class SizesDiffer(torch.nn.Module):
    """Two layers of one root in a stage each; with one request, the first stage reads the second layer too."""

    decode_slots = (SlotSpec("x", torch.float32, (16,)),)

    def __init__(self, peeking_size: int):
        super().__init__()
        self.register_buffer("root", torch.zeros(3, 4, 16))
        self.peeking_size = peeking_size

    def forward(self, x):
        self.root[0].add_(x.sum(0))
        seen = self.root[1][:1] if x.shape[0] == self.peeking_size else 1
        (x,) = stage_boundary("first", x + self.root[0][:1] + seen)
        self.root[1].add_(x.sum(0))
        (x,) = stage_boundary("second", x + self.root[1][:1])
        self.root[2].add_(x.sum(0))
        return x + self.root[2][:1]


@pytest.mark.parametrize("peeking_size", [1, 2])
def test_all_batch_sizes_take_the_same_slices(peeking_size):
    model, eager = SizesDiffer(peeking_size), SizesDiffer(peeking_size)
    runner = compile_decode(model, [1, 2], mode="regions")
    rows = [[one.rows for one in replay.bindings if one.kind == "kv"] for replay in runner.plan.replays]
    assert rows == [[(0, 2), (2, 1)]] * 2
    for live in (2, 1, 2, 1):
        x = torch.full((live, 16), 0.5)
        assert torch.equal(runner(x=x), eager(x))
    assert torch.equal(model.root, eager.root)


def test_whole_mode_takes_the_whole_root():
    runner = compile_decode(SizesDiffer(0), [1], mode="whole")
    assert [one.rows for one in runner.plan.replays[0].bindings if one.kind == "kv"] == [None]
