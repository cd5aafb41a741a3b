from __future__ import annotations

import torch
from deepinfer_neuron.passes.drop_assertions import drop_assertions

aten = torch.ops.aten


def test_assertions_and_identities_go(checked):
    def step(x, labels):
        return torch.nn.functional.one_hot(labels, 5) + x.detach().clone()

    case = checked(step, [torch.randn(3, 5), torch.tensor([0, 4, 2])])
    assert aten._assert_async.msg in case.targets()
    assert drop_assertions(case.module, case.context) >= 3
    assert not {aten._assert_async.msg, aten.detach.default, aten.clone.default} & set(case.targets())
    case.assert_same_bits()


def test_a_clone_that_changes_the_layout_stays(checked):
    def step(x):
        return x.t().contiguous().view(-1)

    case = checked(step, [torch.randn(3, 5)])
    drop_assertions(case.module, case.context)
    assert aten.clone.default in case.targets()
    case.assert_same_bits()


def test_a_returned_copy_of_an_input_from_before_its_update_stays(checked):
    class Step(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.tensor([0.0, 1.0]))

        def forward(self, x):
            old = self.state.clone()
            self.state.add_(x)
            return old.detach(), self.state * 2

    case = checked(Step(), [torch.ones(2)])
    drop_assertions(case.module, case.context)
    assert aten.clone.default in case.targets()
    case.assert_same_bits()
