"""Kinds of functions and modules that other people compile, in both directions where they have gradients."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

BACKEND = "deepinfer_neuron"


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def assert_same(function, *arguments, tolerance=None):
    expected = function(*copy.deepcopy(arguments))
    actual = torch.compile(function, backend=BACKEND)(*arguments)
    torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance)


def multiplies_by_a_literal(x):
    return x * torch.tensor(2.0)


def stores_a_literal(x):
    x = x.clone()
    x[torch.tensor([1])] = 1.0
    return x


def fills_rows(x):
    return x.index_fill(0, torch.tensor([0]), 1.0)


def joins_an_empty_literal(x):
    return torch.cat([torch.tensor([]), x.flatten()])


def adds_a_table(x):
    return x + torch.tensor([[1, 2], [3, 4], [5, 6]])


def masks_by_a_literal(x):
    return x.masked_fill(torch.tensor([True, False]), torch.tensor(-1.5))


@pytest.mark.parametrize(
    "function",
    [
        multiplies_by_a_literal,
        stores_a_literal,
        fills_rows,
        joins_an_empty_literal,
        adds_a_table,
        masks_by_a_literal,
    ],
)
def test_literal_tensors_are_constants(function):
    assert_same(function, torch.randn(3, 2))


def selects_no_row(x):
    x = x.clone()
    x[1::3] += 1
    return x


def doubles_everything(x):
    x = x.clone()
    x[::1] *= 2
    return x


def stores_in_an_empty_window(x):
    x = x.clone()
    x[2:2, ::2] = 7
    return x


@pytest.mark.parametrize("function", [selects_no_row, doubles_everything])
@pytest.mark.parametrize("shape", [(1, 2), (0,), (0, 3), (2, 0), (5,)])
def test_updates_may_select_nothing(function, shape):
    assert_same(function, torch.randn(shape))


def test_an_update_of_an_empty_window_changes_nothing():
    assert_same(stores_in_an_empty_window, torch.randn(4, 4))


PRODUCTS = {
    "columns": (lambda x, i, w: x[:, i] @ w, (8, 32), (16, 8)),
    "columns of one row": (lambda x, i, w: x[:, i] @ w, (1, 32), (16, 8)),
    "selected columns": (lambda x, i, w: x.index_select(1, i) @ w, (8, 32), (16, 8)),
    "columns and rows": (lambda x, i, w: x[:, i] @ w[i], (8, 32), (32, 8)),
    "columns on the right": (lambda x, i, w: x @ w[:, i], (8, 16), (16, 32)),
    "transposed columns": (lambda x, i, w: x[:, i].T @ w, (8, 32), (8, 8)),
    "columns times vector": (lambda x, i, w: x[:, i] @ w, (8, 32), (16,)),
    "columns of a batch": (lambda x, i, w: x[:, :, i] @ w, (3, 8, 32), (3, 16, 8)),
    "batches moved": (lambda x, i, w: x[:, i].transpose(0, 1) @ w, (8, 32, 4), (16, 4, 8)),
    "vector": (lambda x, i, w: x[i] @ w, (32,), (16, 8)),
    "nothing": (lambda x, i, w: x[:, i[:0]] @ w, (8, 32), (0, 8)),
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", PRODUCTS)
def test_gathered_operands_are_multiplied(name, dtype):
    """XLA:CPU accepts some of these layouts when it compiles and refuses them when it runs."""
    function, left, right = PRODUCTS[name]
    assert_same(function, torch.randn(left).to(dtype), torch.arange(16), torch.randn(right).to(dtype), tolerance=2e-2)


def test_an_embedding_learns():
    eager = nn.Embedding(10, 8, padding_idx=3)
    other = copy.deepcopy(eager)
    index = torch.tensor([[1, 2, 3], [1, 1, 9]])
    for function, module in ((eager, eager), (torch.compile(other, backend=BACKEND), other)):
        function(index).square().sum().backward()
        assert module.weight.grad is not None
    torch.testing.assert_close(other.weight.grad, eager.weight.grad)
