from __future__ import annotations

import pytest
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.runtime.ladder import size_ladder


def test_the_ladder_ends_in_every_maximum():
    for maximum in range(1, 601):
        ladder = size_ladder(maximum)
        assert ladder[-1] == maximum
        assert ladder[0] == 1
        assert list(ladder) == sorted(set(ladder))


def test_given_sizes_are_sorted_and_unique():
    assert size_ladder([8, 1, 8, 3]) == (1, 3, 8)


@pytest.mark.parametrize("sizes", [0, -1, [], [0, 2]])
def test_unusable_sizes_are_refused(sizes):
    with pytest.raises(InputError, match="expected at least one size"):
        size_ladder(sizes)
