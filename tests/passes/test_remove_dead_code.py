from __future__ import annotations

import torch
from deepinfer_neuron.passes.context import placeholders
from deepinfer_neuron.passes.remove_dead_code import remove_dead_code

aten = torch.ops.aten


def keep_only_the_sum(case) -> None:
    """Return the first result alone, as a pass that found another way to the second would."""
    output = next(node for node in case.module.graph.nodes if node.op == "output")
    output.args = (output.args[0][:1],)
    case.results = case.results[:1]


def test_unused_nodes_go_and_unused_inputs_are_recorded(checked):
    case = checked(lambda x, y, z: (x + z, (y * 2).relu()), [torch.randn(3), torch.randn(3), torch.randn(3)])
    keep_only_the_sum(case)
    names = [node.name for node in placeholders(case.module)]
    assert remove_dead_code(case.module, case.context) == 2
    assert case.targets() == [aten.add.Tensor]
    assert [node.name for node in placeholders(case.module)] == names
    (unused,) = case.context.unused_inputs
    assert placeholders(case.module)[unused].users == {}
    case.assert_same_bits()


def test_a_graph_whose_values_are_all_used_is_left_alone(checked):
    case = checked(lambda x, y: x * y + x, [torch.randn(3), torch.randn(3)])
    before = str(case.module.graph)
    assert remove_dead_code(case.module, case.context) == 0
    assert str(case.module.graph) == before
    assert case.context.unused_inputs == []
