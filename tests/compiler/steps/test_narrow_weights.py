"""A float32 weight with bfloat16 values: read narrow by the program, wide by the model, one meaning."""

import pytest
import torch
from deepinfer_neuron import compile_decode
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.runtime.slots import SlotSpec
from torch.nn import functional


class Head(torch.nn.Module):
    decode_slots = (SlotSpec("x", torch.bfloat16, (64,)),)

    def __init__(self, exact=True):
        super().__init__()
        weight = torch.randn(32, 64, generator=torch.Generator().manual_seed(3))
        self.weight = torch.nn.Parameter(weight.bfloat16().float() if exact else weight, requires_grad=False)

    def forward(self, x):
        return functional.linear(x.float(), self.weight)


def carriers(runner):
    return {one.carrier for replay in runner.plan.replays for one in replay.bindings if one.kind == "weight"}


def batch(rows):
    return torch.randn(rows, 64, generator=torch.Generator().manual_seed(rows)).bfloat16()


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_the_result_is_that_of_the_wide_weight(rows):
    model = Head()
    runner = compile_decode(model, [1, 4])
    assert carriers(runner) == {torch.bfloat16}
    torch.testing.assert_close(runner(x=batch(rows)), model(batch(rows)), rtol=1e-5, atol=1e-5)


def test_a_weight_with_other_values_is_read_wide():
    model = Head(exact=False)
    runner = compile_decode(model, [2])
    assert carriers(runner) == {torch.float32}
    torch.testing.assert_close(runner(x=batch(2)), model(batch(2)), rtol=1e-5, atol=1e-5)


def test_new_values_in_place_reach_the_program():
    model = Head()
    runner = compile_decode(model, [2])
    runner(x=batch(2))
    model.weight.mul_(2)
    torch.testing.assert_close(runner(x=batch(2)), model(batch(2)), rtol=1e-5, atol=1e-5)


def test_new_values_that_do_not_fit_are_refused():
    model = Head()
    runner = compile_decode(model, [2])
    model.weight[0, 0] = 0.1
    with pytest.raises(InputError, match="compile again"):
        runner(x=batch(2))
    model.weight[0, 0] = 0.5
    torch.testing.assert_close(runner(x=batch(2)), model(batch(2)), rtol=1e-5, atol=1e-5)
