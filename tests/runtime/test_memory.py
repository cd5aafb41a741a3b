from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.runtime.memory import aligned_empty, is_shareable, shareable_copy

ALIGNED = aligned_empty((4, 16), torch.float32).fill_(1)


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (ALIGNED, True),
        (ALIGNED[1:], True),
        (ALIGNED.view(-1)[1:], False),
        (ALIGNED.t(), False),
        (torch.imag(torch.ones(16, dtype=torch.complex64).conj()), False),
        (ALIGNED.to("meta"), False),
    ],
    ids=["aligned", "aligned rows", "unaligned", "transposed", "negated", "elsewhere"],
)
def test_what_a_device_can_use_is_told_apart(tensor, expected):
    assert is_shareable(tensor) is expected


def test_a_copy_can_be_used_and_has_the_values():
    for tensor in (ALIGNED.view(-1)[1:], ALIGNED.t(), torch.imag(torch.ones(16, dtype=torch.complex64).conj())):
        copy = shareable_copy(tensor)
        assert is_shareable(copy)
        assert torch.equal(copy, tensor)
