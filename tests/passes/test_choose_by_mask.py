from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.choose_by_mask import choose_by_mask
from hypothesis import given, settings
from hypothesis import strategies as st

aten = torch.ops.aten


def put(x, mask, values, accumulate=False):
    return torch.index_put(x, (mask,), values, accumulate)


@pytest.mark.parametrize("shape", [(), (1,), (3,), (1, 3), (2, 3), (1, 2, 3)])
@pytest.mark.parametrize("accumulate", [False, True])
def test_one_value_through_a_mask_is_a_choice(checked, shape, accumulate):
    x, mask, values = torch.randn(4, 2, 3), torch.tensor([True, False, True, True]), torch.randn(shape)
    case = checked(lambda x, mask, values: put(x, mask, values, accumulate), [x, mask, values])
    assert choose_by_mask(case.module, case.context) == 1
    assert aten.index_put.default not in case.targets()
    case.assert_same_bits()


def test_a_value_for_each_true_element_is_left_alone(checked):
    mask = torch.tensor([True, False, True, True])
    case = checked(lambda x, mask, values: put(x, mask, values), [torch.randn(4, 3), mask, torch.randn(3, 3)])
    assert choose_by_mask(case.module, case.context) == 0
    assert aten.index_put.default in case.targets()


def test_integer_positions_are_left_alone(checked):
    case = checked(
        lambda x, mask, values: put(x, mask, values), [torch.randn(4, 3), torch.tensor([1, 2]), torch.randn(1, 3)]
    )
    assert choose_by_mask(case.module, case.context) == 0
    case.assert_same_bits()


@settings(deadline=None, max_examples=25)
@given(st.data())
def test_random_masks_keep_every_bit(checked, data):
    sizes = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    masked = data.draw(st.integers(1, len(sizes)))
    window = [data.draw(st.sampled_from([1, size])) for size in sizes[masked:]]
    values = torch.randn([1] * data.draw(st.integers(0, 1)) + window)
    mask = torch.rand(sizes[:masked]) < 0.5
    number = data.draw(st.sampled_from([torch.float32, torch.bfloat16, torch.int64]))

    def step(x, mask, values):
        first = put(x[:], mask, values)
        return put(first.view(x.shape), ~mask, values * 2, True)

    case = checked(step, [(torch.randn(sizes) * 9).to(number), mask, (values * 9).to(number)])
    assert choose_by_mask(case.module, case.context) == 2
    case.assert_same_bits()
