"""Graphs recorded from functions: what they contain, what they compute and what is refused."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.lowering.control_flow import WHILE_LOOP
from deepinfer_neuron.compiler.lowering.record import record
from deepinfer_neuron.errors import LoweringError

aten = torch.ops.aten


def targets(module):
    return [node.target for node in module.graph.nodes if node.op == "call_function"]


def test_operators_in_their_order_and_their_types():
    module = record(lambda x, y: (x.float() + y).sum(-1), [torch.ones(2, 3, dtype=torch.int32), torch.ones(3)])
    assert targets(module) == [aten._to_copy.default, aten.add.Tensor, aten.sum.dim_IntList]
    values = [node.meta["val"] for node in module.graph.nodes if node.op != "output"]
    assert [tuple(value.shape) for value in values] == [(2, 3), (3,), (2, 3), (2, 3), (2,)]
    assert [value.dtype for value in values] == [torch.int32] + [torch.float32] * 4


def test_inputs_are_not_computed_on():
    seen = []
    record(lambda x: (seen.append((x.device.type, x.shape)), x + 1)[1], [torch.empty(1 << 40, device="meta")])
    assert seen == [("cpu", torch.Size([1 << 40]))]


def test_unused_results_are_left_out():
    module = record(lambda x: (x.exp(), x.sort().values)[1], [torch.ones(3)])
    assert aten.exp.default not in targets(module)
    assert len(module.graph.nodes) == 4


def test_updates_become_functional():
    def update(x):
        result = x.clone()
        result[1:].mul_(2)
        result[0] = 5
        return result, x

    x = torch.randn(3, 2)
    module = record(update, [x])
    assert not any(target._schema.is_mutable for target in targets(module))
    for actual, expected in zip(module(x), update(x), strict=True):
        assert torch.equal(actual, expected)


def test_tensors_with_data_become_constants():
    table = torch.tensor([3.0, 4.0])
    module = record(lambda x: x + table + table + torch.tensor(2.0) + torch.ones(()), [torch.ones(2)])
    assert len(module.graph.find_nodes(op="get_attr")) == 2
    assert torch.equal(module(torch.ones(2)), torch.tensor([10.0, 12.0]))


def count_up(x, limit):
    return torch.ops.higher_order.while_loop(
        lambda number, total, step: number < limit,
        lambda number, total, step: (number + 1, total + step),
        (torch.zeros((), dtype=torch.int32), torch.zeros_like(x)),
        (x,),
    )[1]


def test_loops_are_graphs_of_their_own():
    x = torch.randn(4)
    module = record(lambda x: count_up(x, 3) - count_up(x, 2), [x])
    assert targets(module).count(WHILE_LOOP) == 2
    assert torch.equal(module(x), ((x + x) + x) - (x + x))


def test_a_loop_over_a_tensor_from_outside_is_refused():
    def closes_over(x):
        start = (torch.zeros((), dtype=torch.int32), torch.zeros_like(x))
        loop = torch.ops.higher_order.while_loop
        return loop(lambda number, total: number < 3, lambda number, total: (number + 1, total + x), start, ())

    with pytest.raises(LoweringError, match="as a constant"):
        record(closes_over, [torch.ones(2)])


@pytest.mark.parametrize("function", [lambda x: x * x.sum().item(), lambda x: x[x > 0]], ids=["item", "mask"])
def test_results_that_depend_on_values_are_refused(function):
    with pytest.raises(LoweringError, match="without values"):
        record(function, [torch.ones(2)])


def test_inside_inference_mode():
    with torch.inference_mode():
        module = record(lambda x: torch.nn.functional.linear(x, x), [torch.ones(2, 2)])
    assert targets(module) == [aten.t.default, aten.mm.default]
