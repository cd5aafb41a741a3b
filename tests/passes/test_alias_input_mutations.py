from __future__ import annotations

import torch
from deepinfer_neuron.passes.alias_input_mutations import alias_input_mutations
from deepinfer_neuron.passes.context import output_node, placeholders

aten = torch.ops.aten


class Caches(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.randn(6, 4))
        self.register_buffer("values", torch.randn(6, 4))

    def forward(self, x, rows):
        self.keys.index_put_((rows,), x)
        self.values.index_put_((rows,), x * 2)
        self.keys.index_put_((rows + 1,), x)
        return self.keys[rows] + self.values[rows]


def test_every_update_becomes_one_aliased_output(checked):
    case = checked(Caches(), [torch.randn(2, 4), torch.tensor([1, 3])])
    assert case.targets().count(aten.copy_.default) == 2
    assert alias_input_mutations(case.module, case.context) == 2
    assert aten.copy_.default not in case.targets()
    assert sorted(case.context.aliases) == [1, 2]
    updated = {placeholders(case.module)[source].name for source in case.context.aliases.values()}
    assert len(updated) == 2
    case.assert_same_bits()


class Overwritten(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.randn(3))

    def forward(self, x):
        self.state.copy_(x)
        return self.state, x


def test_returned_inputs_and_returned_updates_are_clones(checked):
    case = checked(Overwritten(), [torch.randn(3)])
    alias_input_mutations(case.module, case.context)
    results = output_node(case.module).args[0]
    assert len(set(results)) == len(results) == 3
    assert not set(results) & set(placeholders(case.module))
    case.assert_same_bits()
