from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.errors import GraphError
from deepinfer_neuron.passes.alias_input_mutations import alias_input_mutations
from deepinfer_neuron.passes.interval import Interval
from deepinfer_neuron.passes.mark_stages import mark_stages
from deepinfer_neuron.passes.narrow_integers import narrow_decomposition, narrow_integers
from deepinfer_neuron.passes.verify import NO_WIDE_INTEGERS, verify
from torch.fx.experimental.proxy_tensor import make_fx

aten = torch.ops.aten


def narrow(checked, function, inputs, target="trn2", largest=9):
    case = checked(function, inputs, target=target, value_range=lambda position: Interval(0, largest))
    mark_stages(case.module, case.context)
    alias_input_mutations(case.module, case.context)
    case.changed = narrow_integers(case.module, case.context)
    case.module.graph.lint()
    verify(case.module, case.context, [NO_WIDE_INTEGERS])
    return case


X = torch.randn(3, 5)
ROWS = torch.tensor([1, 4, 2])

STEPS = {
    "gather": lambda x, rows: x.gather(1, rows.unsqueeze(1)),
    "scatter": lambda x, rows: x.scatter(1, rows.unsqueeze(1), 7.0),
    "index": lambda x, rows: x[:, rows],
    "negative": lambda x, rows: x[rows // 2, rows - 5],
    "index_select": lambda x, rows: x.index_select(1, rows),
    "index_copy": lambda x, rows: x.index_copy(1, rows, x[:, :3]),
    "index_copy first": lambda x, rows: x.index_copy(0, rows // 2, x.flip(0)),
    "embedding": lambda x, rows: torch.nn.functional.embedding(rows % 3, x),
    "arithmetic": lambda x, rows: ((rows * 300 + 7) // 4 - rows) % 11,
    "bits": lambda x, rows: (rows << 20 & 0xFFFFF0) ^ (rows | 3) >> 1,
    "compare": lambda x, rows: torch.where(rows > 1, rows, -1).clamp(0, 3),
    "mixed types": lambda x, rows: (rows * x[:, 0], rows / 3, rows + rows.int(), rows.bool(), rows.to(torch.bfloat16)),
    "float": lambda x, rows: rows.double() * 0.1,
    "sums": lambda x, rows: (rows.sum(), rows.cumsum(0), (x > 0).sum(1), rows.amax(), *rows.max(0)),
    "positions": lambda x, rows: (x.argmax(1), x.argmin(), x.sort(dim=1).indices, x.topk(2).indices, *x.max(1)),
    "chosen": lambda x, rows: x.gather(1, torch.sort(x, dim=1, stable=True, descending=True).indices[:, :2]),
    "constants": lambda x, rows: x[:, torch.tensor([4, 0])] + torch.arange(2) + torch.full((2,), 3),
    "parts": lambda x, rows: torch.stack([*rows.unbind(0), torch.cat(rows.split(2)).sum()]),
    "untouched": lambda x, rows: (x.view(torch.int32) + 1, x > 0),
    "casts": lambda x, rows: (rows.int().long().int() + 1, rows.to(torch.uint8), (x > 0).long()),
    "no elements": lambda x, rows: rows[:0] + torch.arange(0),
}


@pytest.mark.parametrize("step", STEPS)
def test_every_bit_is_kept(checked, step):
    case = narrow(checked, STEPS[step], [X, ROWS])
    case.assert_same_bits()


def test_inputs_are_carried_and_results_are_known(checked):
    case = narrow(checked, lambda x, rows: (x[:, rows], rows + 1, rows.int()), [X, ROWS])
    assert list(case.context.carriers.values()) == [torch.int32]
    assert case.context.result_dtypes == {1: torch.int64}
    assert case.changed >= 2


def test_the_host_and_graphs_without_int64_are_left_alone(checked):
    for target, rows in (("host", ROWS), ("trn2", ROWS.int())):
        case = checked(lambda x, rows: (x.index_select(1, rows), x + 1), [X, rows], target=target)
        before = str(case.module.graph)
        assert narrow_integers(case.module, case.context) == 0
        assert str(case.module.graph) == before
        assert case.context.carriers == case.context.result_dtypes == {}


def test_positions_are_converted_where_they_are_made(checked):
    case = narrow(checked, lambda x, rows: x.gather(1, x.topk(2).indices // 2), [X, ROWS])
    targets = case.targets()
    assert targets[targets.index(aten.topk.default) + 2] is aten._to_copy.default
    assert targets.count(aten._to_copy.default) == 1


def test_casts_that_have_become_copies_are_dropped(checked):
    case = narrow(checked, lambda x, rows: x.gather(1, rows.int().long().unsqueeze(1)), [X, ROWS])
    assert aten._to_copy.default not in case.targets()


REFUSED = {
    "too large": (lambda x, rows: rows * 2**31, r"\[0, 19327352832\], which needs int64.*declare a smaller maximum"),
    "wraps": (lambda x, rows: (rows + 1) << 28, "needs int64"),
    "unknown": (lambda x, rows: x.long(), "needs int64"),
    "hash": (lambda x, rows: (rows * 7919) * 7919 * 7919 % 100, "needs int64"),
    "number": (lambda x, rows: rows < 2**40, "uses the number 1099511627776"),
    "constant": (lambda x, rows: torch.tensor([2**40]) + rows, "needs int64"),
    "index_fill": (lambda x, rows: x.index_fill(1, rows, 1.0), "takes int64 only"),
    "bits": (lambda x, rows: rows.view(torch.int32), "takes int64 apart"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_needs_int64_is_refused_with_its_source_line(checked, case):
    step, message = REFUSED[case]
    with pytest.raises(GraphError, match=message) as refused:
        narrow(checked, step, [X, ROWS])
    assert "test_narrow_integers.py:" in str(refused.value)


def test_an_input_without_a_bound_is_refused(checked):
    case = checked(lambda x, rows: x[:, rows], [X, ROWS], target="trn2")
    with pytest.raises(GraphError, match=r"may be anything in \[-9223372036854775808, 9223372036854775807\]"):
        narrow_integers(case.module, case.context)


class Steps(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2, dtype=torch.int64))

    def forward(self, x):
        self.count.add_(1)
        return x + self.count


def test_an_updated_int64_buffer_is_refused(checked):
    with pytest.raises(GraphError, match=r"updates the int64 input .* keep it in an int32 buffer"):
        narrow(checked, Steps(), [torch.zeros(2)])


def test_a_decomposition_takes_any_value_of_its_arguments():
    def select(x, rows):
        order = torch.sort(x, dim=1, stable=True).indices
        return x.gather(1, order[:, :2]), rows.long() // 2

    rows = torch.tensor([5, -(2**31), 2**31 - 1], dtype=torch.int32)
    module = make_fx(select, tracing_mode="fake")(X, rows)
    narrow_decomposition(module)
    module.recompile()
    values, halves = module(X, rows)
    assert torch.equal(values, select(X, rows)[0])
    assert halves.dtype is torch.int32
    assert torch.equal(halves.long(), select(X, rows)[1])
    module = make_fx(lambda rows: rows.long() - 1, tracing_mode="fake")(rows)
    with pytest.raises(GraphError, match="needs int64"):
        narrow_decomposition(module)
