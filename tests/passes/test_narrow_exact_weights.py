from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.context import placeholders
from deepinfer_neuron.passes.narrow_exact_weights import narrow_exact_weights
from torch.nn import functional


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(6, 4).bfloat16().float())

    def forward(self, x):
        return functional.linear(x.float(), self.weight)


class UsedTwice(Head):
    def forward(self, x):
        return functional.linear(x.float(), self.weight) + self.weight.sum()


class WideInput(Head):
    def forward(self, x):
        return functional.linear(x.float() + 0.1, self.weight)


def widths(case):
    return {tuple(node.meta["val"].shape): node.meta["val"].dtype for node in placeholders(case.module)}


def test_a_weight_that_meets_widened_values_is_taken_narrow(checked):
    case = checked(Head(), [torch.randn(2, 4).bfloat16()], holds_bfloat16=lambda position: True)
    assert narrow_exact_weights(case.module, case.context) == 1
    assert list(case.context.carriers.values()) == [torch.bfloat16]
    assert widths(case)[6, 4] is torch.bfloat16
    case.assert_same_bits()


def test_a_weight_with_other_values_stays_wide(checked):
    case = checked(Head(), [torch.randn(2, 4).bfloat16()])
    assert narrow_exact_weights(case.module, case.context) == 0
    assert widths(case)[6, 4] is torch.float32
    case.assert_same_bits()


@pytest.mark.parametrize("model", [UsedTwice, WideInput])
def test_a_weight_with_any_other_use_stays_wide(checked, model):
    case = checked(model(), [torch.randn(2, 4).bfloat16()], holds_bfloat16=lambda position: True)
    assert narrow_exact_weights(case.module, case.context) == 0
    case.assert_same_bits()
