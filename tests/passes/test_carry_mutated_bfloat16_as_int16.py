from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.alias_input_mutations import alias_input_mutations
from deepinfer_neuron.passes.carry_mutated_bfloat16_as_int16 import carry_mutated_bfloat16_as_int16
from deepinfer_neuron.passes.context import output_node, placeholders


class Cache(torch.nn.Module):
    def __init__(self, step, shape=(8, 4), dtype=torch.bfloat16):
        super().__init__()
        self.register_buffer("root", torch.randn(shape).to(dtype))
        self.step = step

    def forward(self, x, rows):
        return self.step(self.root, x, rows)


def store_and_gather(root, x, rows):
    root.index_put_((rows,), x)
    return root[rows + 1].float() + 1


def two_stores(root, x, rows):
    root.index_put_((rows,), x)
    first = root[rows]
    root.index_copy_(0, rows + 2, first * 2)
    return root.index_select(0, rows + 2) + first


def blocks(root, x, rows):
    root.view(-1, 4).index_put_((rows,), x)
    return root.view(4, 2, 4)[rows].float().sum(1)


def reads_a_slice(root, x, rows):
    root.index_put_((rows,), x)
    return root[2:6].float().sum(0)


def returns_all(root, x, rows):
    root.index_put_((rows,), x)
    return root


def accumulates(root, x, rows):
    root.index_put_((rows,), x, accumulate=True)
    return x + 1


def computes_on_everything(root, x, rows):
    root.index_put_((rows,), x)
    return root.sum()


def stores_into_itself(root, x, rows):
    root.index_put_((rows,), root[rows] * x)
    root.mul_(2)
    return x + 1


INPUTS = [torch.randn(2, 4).to(torch.bfloat16), torch.tensor([1, 4])]


@pytest.mark.parametrize("step", [store_and_gather, two_stores, blocks, reads_a_slice, returns_all])
def test_a_cache_of_rows_is_carried_as_int16(checked, step):
    rows = torch.tensor([0, 3]) if step is blocks else INPUTS[1]
    case = checked(Cache(step), [INPUTS[0], rows])
    alias_input_mutations(case.module, case.context)
    assert carry_mutated_bfloat16_as_int16(case.module, case.context) == 1
    ((position, source),) = case.context.aliases.items()
    assert case.context.carriers == {source: torch.int16}
    assert placeholders(case.module)[source].meta["val"].dtype is torch.int16
    assert output_node(case.module).args[0][position].meta["val"].dtype is torch.int16
    case.assert_same_bits()


@pytest.mark.parametrize("step", [accumulates, computes_on_everything, stores_into_itself])
def test_a_cache_that_is_computed_on_stays_bfloat16(checked, step):
    case = checked(Cache(step), INPUTS)
    alias_input_mutations(case.module, case.context)
    assert carry_mutated_bfloat16_as_int16(case.module, case.context) == 0
    assert case.context.carriers == {}
    case.assert_same_bits()


def test_other_dtypes_and_other_targets_are_left_alone(checked):
    case = checked(Cache(store_and_gather, dtype=torch.float32), [INPUTS[0].float(), INPUTS[1]])
    alias_input_mutations(case.module, case.context)
    assert carry_mutated_bfloat16_as_int16(case.module, case.context) == 0
    case = checked(Cache(store_and_gather), INPUTS, target="trn2")
    alias_input_mutations(case.module, case.context)
    assert carry_mutated_bfloat16_as_int16(case.module, case.context) == 0


def test_values_keep_their_recorded_types(checked):
    case = checked(Cache(two_stores), INPUTS)
    alias_input_mutations(case.module, case.context)
    carry_mutated_bfloat16_as_int16(case.module, case.context)
    views = [tensor.view(case.context.carriers.get(i, tensor.dtype)) for i, tensor in enumerate(case.tensors)]
    values = dict(zip(placeholders(case.module), views, strict=True))
    for node in case.module.graph.nodes:
        if node.op == "call_function":
            args = torch.fx.map_arg(node.args, values.__getitem__)
            values[node] = node.target(*args, **node.kwargs)
            assert values[node].dtype == node.meta["val"].dtype, node
            assert values[node].shape == node.meta["val"].shape, node
