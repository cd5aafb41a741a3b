from __future__ import annotations

import torch
from deepinfer_neuron.passes.alias_input_mutations import alias_input_mutations
from deepinfer_neuron.passes.context import placeholders
from deepinfer_neuron.passes.merge_duplicate_inputs import merge_duplicate_inputs
from deepinfer_neuron.passes.weight_layout import WeightLayout


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Parameter(torch.randn(4, 4))
        self.second = torch.nn.Parameter(self.first.detach())
        self.register_buffer("state", torch.zeros(2, 4))

    def forward(self, x):
        self.state.copy_(x)
        return x @ self.first @ self.second


def test_the_first_of_equal_keys_serves_all_uses(checked):
    case = checked(Tied(), [torch.randn(2, 4)])
    alias_input_mutations(case.module, case.context)
    case.context.input_keys = [
        str(list(tensor.shape)) if tensor.shape == (4, 4) else i for i, tensor in enumerate(case.tensors)
    ]
    before = len(placeholders(case.module))
    assert merge_duplicate_inputs(case.module, case.context) == 1
    assert len(placeholders(case.module)) == before
    weights = [
        node for node, tensor in zip(placeholders(case.module), case.tensors, strict=True) if tensor.shape == (4, 4)
    ]
    assert [len(node.users) for node in weights] == [2, 0]
    case.assert_same_bits()


def test_an_updated_input_is_never_merged(checked):
    case = checked(Tied(), [torch.randn(2, 4)])
    alias_input_mutations(case.module, case.context)
    case.context.input_keys = ["weight" if tensor.shape == (4, 4) else "state" for tensor in case.tensors]
    merge_duplicate_inputs(case.module, case.context)
    case.assert_same_bits()


def test_inputs_that_are_arranged_differently_are_not_merged(checked):
    case = checked(Tied(), [torch.randn(2, 4)])
    alias_input_mutations(case.module, case.context)
    weights = [position for position, tensor in enumerate(case.tensors) if tensor.shape == (4, 4)]
    case.context.input_keys = ["weight" if i in weights else i for i in range(len(case.tensors))]
    case.context.layouts[weights[0]] = WeightLayout((4, 4), (1, 4), 0)
    assert merge_duplicate_inputs(case.module, case.context) == 0


def test_without_keys_nothing_is_merged(checked):
    case = checked(Tied(), [torch.randn(2, 4)])
    assert merge_duplicate_inputs(case.module, case.context) == 0
