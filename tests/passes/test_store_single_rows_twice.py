from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.passes.store_single_rows_twice import store_single_rows_twice


def put(root, index, rows):
    return torch.index_put(root, (index,), rows)


def copy(root, index, rows):
    return torch.index_copy(root, 0, index, rows)


def accumulate(root, index, rows):
    return torch.index_put(root, (index,), rows, accumulate=True)


def put_a_column(root, index, rows):
    root = root.clone()
    root[:, index] = rows
    return root


@pytest.mark.parametrize("store", [put, copy])
def test_a_single_row_is_stored_twice(checked, store):
    case = checked(store, [torch.randn(5, 3), torch.tensor([2]), torch.randn(1, 3)])
    assert store_single_rows_twice(case.module, case.context) == 1
    assert case.targets().count(torch.ops.aten.cat.default) == 2
    case.assert_same_bits()


@pytest.mark.parametrize(
    ("store", "index", "rows"),
    [
        (put, torch.tensor([2, 3]), torch.randn(2, 3)),
        (put, torch.tensor([True, False, False, False, True]), torch.randn(2, 3)),
        (put, torch.tensor([2]), torch.randn(3)),
        (accumulate, torch.tensor([2]), torch.randn(1, 3)),
        (put_a_column, torch.tensor([2]), torch.randn(5, 1)),
    ],
)
def test_other_stores_are_left_alone(checked, store, index, rows):
    case = checked(store, [torch.randn(5, 3), index, rows])
    assert store_single_rows_twice(case.module, case.context) == 0
    case.assert_same_bits()


def test_other_targets_are_left_alone(checked):
    case = checked(put, [torch.randn(5, 3), torch.tensor([2]), torch.randn(1, 3)], target="trn2")
    assert store_single_rows_twice(case.module, case.context) == 0
