from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.context import placeholders
from deepinfer_neuron.passes.index_bounds import unbounded_indices
from deepinfer_neuron.passes.interval import Interval

INPUTS = [torch.randn(4, 3), torch.tensor([1, 3, 0], dtype=torch.int32)]

ADDRESSES = {
    "index": lambda x, rows: x[rows],
    "computed": lambda x, rows: x[torch.cat((rows, rows)) // 2 - 1 + 1],
    "gather": lambda x, rows: x.gather(1, (rows[:1] % 2 + rows[:1]).long().unsqueeze(1)),
    "embedding": lambda x, rows: torch.nn.functional.embedding(rows, x),
    "store": lambda x, rows: x.index_put((rows,), x[:3]),
    "among several": lambda x, rows: x[rows, torch.arange(3)],
    "through a table": lambda x, rows: x[torch.where(x[:3, 0] > 0, rows, 0)],
}


@pytest.mark.parametrize("step", ADDRESSES)
def test_an_index_from_an_input_without_a_range_is_found(checked, step):
    case = checked(ADDRESSES[step], INPUTS)
    rows = next(node for node in placeholders(case.module) if node.meta["val"].dtype is torch.int32)
    found = list(unbounded_indices(case.module, case.context))
    assert {source for _, source in found} == {rows}
    assert len(found) == 1
    case.context.value_range = lambda position: Interval(0, 1)
    assert list(unbounded_indices(case.module, case.context)) == []


SAFE = {
    "clamped": lambda x, rows: x[rows.clamp(0, 3)],
    "remainder": lambda x, rows: x[rows % 4],
    "constant": lambda x, rows: x[torch.tensor([1, 2])] + rows.unsqueeze(1)[:2],
    "position": lambda x, rows: x[x.argmax(0)] * rows,
    "mask": lambda x, rows: torch.where(rows > 0, x[0], x[1]),
}


@pytest.mark.parametrize("step", SAFE)
def test_an_index_with_a_range_of_its_own_is_none(checked, step):
    case = checked(SAFE[step], INPUTS)
    assert list(unbounded_indices(case.module, case.context)) == []
