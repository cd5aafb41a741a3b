import math

import pytest
import torch
from deepinfer_neuron.verification.distance import Difference, coarse_difference, difference


def test_equal_bits_are_no_difference_and_any_nan_equals_any_nan():
    values = torch.tensor([1.0, -0.0, math.inf, math.nan])
    other = values.clone().view(torch.int32)
    other[3] += 1
    assert difference(other.view(torch.float32), values) == Difference(4, 0, 0.0)


def test_ulps_are_those_of_the_expected_element_or_of_the_largest():
    expected = torch.tensor([1.0, 2.0**-10])
    actual = expected + torch.tensor([0.0, 2.0**-30])
    assert difference(actual, expected) == Difference(2, 1, 8.0)
    assert difference(actual, expected, of_largest=True) == Difference(2, 1, 2.0**-7)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_a_neighbour_is_one_ulp_away(dtype):
    expected = torch.tensor([1.5, -3.0], dtype=dtype)
    assert difference(torch.nextafter(expected, torch.full_like(expected, 9)), expected) == Difference(2, 2, 1.0)


def test_zeros_of_unlike_sign_have_other_bits_and_no_distance():
    assert difference(torch.tensor([-0.0]), torch.tensor([0.0])) == Difference(1, 1, 0.0)


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (torch.tensor([3]), torch.tensor([4])),
        (torch.tensor([True]), torch.tensor([False])),
        (torch.tensor([1.0]), torch.tensor([math.nan])),
        (torch.tensor([math.inf]), torch.tensor([1.0])),
        (torch.tensor([1.0]), torch.tensor([1.0]).bfloat16()),
        (torch.tensor([1.0]), torch.tensor([[1.0]])),
    ],
    ids=["integer", "bool", "nan", "infinity", "dtype", "shape"],
)
def test_what_is_no_distance_is_infinite(actual, expected):
    assert difference(actual, expected) == Difference(1, 1, math.inf)


def test_differences_add_up():
    assert Difference(4, 1, 2.0) + Difference(5, 2, 1.0) == Difference(9, 3, 2.0)


def test_a_coarse_float32_difference_counts_what_bfloat16_would_notice():
    expected = torch.tensor([1.0, 1024.0])
    assert coarse_difference(torch.tensor([1.0 + 2.0**-8, 1024.0]), expected, grain=4).mismatched == 0
    assert coarse_difference(torch.tensor([1.0 + 2.0**-6, 1024.0]), expected, grain=4) == Difference(2, 1, 2.0)


def test_a_coarse_difference_forgives_the_grain_of_the_largest_element():
    expected = torch.tensor([2.0**-20, 1.0])
    moved = expected + torch.tensor([2.0**-22, 0.0])
    assert coarse_difference(moved, expected, grain=2) == Difference(2, 0, 1.0)
    assert coarse_difference(moved, expected, grain=1) == Difference(2, 1, 2.0)


def test_a_coarse_difference_of_bfloat16_is_to_the_bit():
    expected = torch.tensor([1.0, 2.0]).bfloat16()
    assert coarse_difference(torch.tensor([1.0, 2.015625]).bfloat16(), expected, grain=4) == Difference(2, 1, 1.0)
