"""What counts as a wrong result: against float64, by eager PyTorch's own error."""

from __future__ import annotations

import math

import pytest
import torch
from deepinfer_neuron.bisection.accuracy.expectation import FACTOR, Expectation, difference_line, expect
from deepinfer_neuron.bisection.accuracy.wide_run import run_wide
from deepinfer_neuron.bisection.subjects.carried_bits import CARRIED, mark_carried
from deepinfer_neuron.model.kernels.normalization import rms_norm
from small_graphs import graph_of
from torch import Tensor

aten = torch.ops.aten


def noise(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(7)).to(dtype)


def expected_of(function, *inputs: Tensor) -> Expectation:
    module = graph_of(function, inputs)
    mark_carried(module)
    return expect(module, inputs)


def is_wrong(expectation: Expectation, *actual: Tensor) -> bool:
    return bool(expectation.differences(actual))


def test_eager_itself_is_right_and_float64_too():
    x, y = noise(16, 64, dtype=torch.bfloat16), noise(64, 16, dtype=torch.bfloat16)

    def step(x: Tensor, y: Tensor) -> Tensor:
        return torch.softmax(x @ y, -1) @ y.t()

    expectation = expected_of(step, x, y)
    assert not is_wrong(expectation, step(x, y))
    assert not is_wrong(expectation, step(x.double(), y.double()).bfloat16())
    assert is_wrong(expectation, step(x, y) * 1.5)


def test_the_bar_is_a_multiple_of_eagers_own_error():
    x = noise(8, 512, dtype=torch.bfloat16)

    def step(x: Tensor) -> Tensor:
        return ((x + 100) - 100).float()

    expectation = expected_of(step, x)
    right = x.float()
    own = (step(x) - right).abs().max()
    assert own > 0.1
    assert torch.equal(expectation.expected[0], right)
    assert not is_wrong(expectation, right + 0.99 * FACTOR * own)
    assert is_wrong(expectation, right + 1.01 * FACTOR * own)


def test_what_is_exact_in_eager_may_be_one_bfloat16_ulp_off():
    x = torch.tensor([1.0, 2.0, 1024.0])
    expectation = expected_of(lambda x: x * 2, x)
    ulp = torch.tensor([2.0, 4.0, 2048.0]) * 2.0**-7
    assert not is_wrong(expectation, x * 2 + ulp)
    assert is_wrong(expectation, x * 2 + 1.01 * ulp)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.bool, torch.uint8])
def test_any_other_integer_is_wrong(dtype: torch.dtype):
    x = torch.tensor([0, 1, 1, 0]).to(dtype)
    expectation = expected_of(lambda x: x.flip(0), x)
    assert not is_wrong(expectation, x.flip(0))
    other = x.flip(0).clone()
    other[1] = 0
    assert is_wrong(expectation, other)


def test_large_integers_are_told_apart():
    x = torch.tensor([1 << 60])
    expectation = expected_of(lambda x: x + 1, x)
    assert not is_wrong(expectation, x + 1)
    assert is_wrong(expectation, x + 2)


def test_an_index_may_be_eagers_or_that_of_float64():
    # The roundings of bfloat16 make a tie of what float64 tells apart.
    x = torch.tensor([[1.0, 0.0]], dtype=torch.bfloat16)
    step = [2.0**-10, 2.0**-9]

    def index(x: Tensor) -> Tensor:
        return (x[:, :1] + torch.tensor(step, dtype=torch.bfloat16)).argmax(-1)

    expectation = expected_of(index, x)
    assert index(x).item() == 0
    assert not is_wrong(expectation, torch.tensor([0]))
    assert not is_wrong(expectation, torch.tensor([1]))
    assert is_wrong(expectation, torch.tensor([2]))


def test_not_a_number_and_infinities_are_right_where_eager_has_them():
    x = torch.tensor([1.0, -1.0, 0.0, 4.0])
    expectation = expected_of(torch.log, x)
    right = torch.log(x)
    assert right[1].isnan() and right[2] == -math.inf
    assert not is_wrong(expectation, right)
    for place, value in ((0, math.nan), (1, 0.0), (2, -1e30), (3, math.inf)):
        other = right.clone()
        other[place] = value
        assert is_wrong(expectation, other), (place, value)


def test_low_precision_that_overflows_is_what_the_graph_means():
    x = torch.tensor([6e4], dtype=torch.float16)
    expectation = expected_of(lambda x: x * 4 / 4, x)
    assert not is_wrong(expectation, torch.tensor([math.inf], dtype=torch.float16))
    assert not is_wrong(expectation, x)


def test_results_without_elements_are_right():
    expectation = expected_of(lambda x: (x[:0] * 2, x[:0].long()), noise(4, 3))
    assert not is_wrong(expectation, torch.empty(0, 3), torch.empty(0, 3, dtype=torch.int64))


def test_kernels_run_in_float64_by_the_operators_inside():
    x, weight = noise(4, 64, dtype=torch.bfloat16), noise(64)
    module = graph_of(lambda x, weight: rms_norm(x, weight, 1e-6), [x, weight])
    (wide,) = run_wide(module, [x, weight])
    exact = x.double() * torch.rsqrt(x.double().square().mean(-1, keepdim=True) + 1e-6) * weight.double()
    assert wide.dtype is torch.float64
    assert torch.allclose(wide, exact, rtol=1e-12)


def test_what_has_no_float64_runs_in_its_own_type():
    x = noise(8, dtype=torch.bfloat16)

    def step(x: Tensor) -> Tensor:
        bits = aten.view.dtype(x + x, torch.int16)
        return aten.view.dtype(bits, torch.bfloat16) / 3

    module = graph_of(step, [x])
    (wide,) = run_wide(module, [x])
    assert torch.equal(wide, (x + x).double() / 3)


def test_integers_that_carry_floats_are_compared_as_floats():
    cache, row = noise(8, 4, dtype=torch.bfloat16).view(torch.int16), noise(1, 4, dtype=torch.bfloat16)
    place = torch.tensor([2])

    def step(cache: Tensor, row: Tensor, place: Tensor) -> tuple[Tensor, Tensor]:
        bits = aten.view.dtype(row / 3, torch.int16)
        return aten.index_put.default(cache, [place], bits), place + 1

    module = graph_of(step, [cache, row, place])
    mark_carried(module)
    marked = {node.name for node in module.graph.nodes if CARRIED in node.meta}
    inputs = [node.name for node in module.graph.find_nodes(op="placeholder")]
    assert inputs[0] in marked
    assert inputs[2] not in marked
    expectation = expect(module, [cache, row, place])
    right, number = step(cache, row, place)
    assert not is_wrong(expectation, right, number)
    nearly, wrong = right.clone(), right.clone()
    nearly[2] += 1
    wrong[2] += 128
    assert not is_wrong(expectation, nearly, number)
    assert is_wrong(expectation, wrong, number)


def test_a_line_says_where_it_is_worst():
    line = difference_line("result 3", torch.tensor([[1.0, 5.0]]), torch.ones(1, 2), torch.full((1, 2), 0.5).double())
    assert line == "result 3: 1 of 2 elements are off, the worst at [0, 1]: 5.0, expected 1.0 within 0.5"
