from __future__ import annotations

import pytest
import torch
from torch._dynamo.utils import counters
from torch._higher_order_ops.map import map as map_over
from torch._higher_order_ops.scan import scan
from torch.nn.attention.flex_attention import create_block_mask, flex_attention


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def branches(x):
    return torch.cond(x.sum() > 0, lambda x: (x + 1, x.sum()), lambda x: (x * 2, x.mean()), (x,))


def branches_within(x):
    inner = lambda x: torch.cond(x[0, 0] > 0, torch.sin, torch.cos, (x,))  # noqa: E731
    return torch.cond(x.sum() > 0, inner, lambda x: -x, (x,))


def maps(x, weight):
    return map_over(lambda row, weight: (row @ weight, row.argmax()), x, weight)


def maps_with_branches(x):
    return map_over(lambda row: torch.cond(row.sum() > 0, torch.exp, torch.abs, (row,)), x)


def running(x):
    return scan(lambda total, row: (total + row, (total * row).softmax(-1)), torch.zeros(6), x)


def running_backwards(x):
    return scan(lambda total, row: (total * 0.5 + row, total.clone()), torch.zeros(6), x, reverse=True)


def scores(query, key, value):
    return flex_attention(query, key, value, score_mod=lambda score, b, h, q, k: score + 0.1 * (q - k))


def grouped_heads(query, key, value):
    return flex_attention(query, key[:, :1], value[:, :1], enable_gqa=True)


MASK = create_block_mask(lambda b, h, q, k: (q >= k) & (q - k < 40), None, None, 128, 128, device="cpu")


def window(query, key, value):
    return flex_attention(query, key, value, block_mask=MASK)


X = normal(4, 6)
SHORT, LONG = (
    [normal(2, 2, 8, 16, seed=seed) for seed in range(3)],
    [normal(1, 2, 128, 8, seed=seed) for seed in range(3)],
)
PROGRAMS = [
    (branches, (X,)),
    (branches, (-X.abs(),)),
    (branches_within, (X.abs(),)),
    (branches_within, (-X.abs(),)),
    (maps, (X, normal(6, 3, seed=1))),
    (maps_with_branches, (X,)),
    (running, (X,)),
    (running_backwards, (X,)),
    (scores, SHORT),
    (grouped_heads, SHORT),
    (window, LONG),
]


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize(("function", "inputs"), PROGRAMS, ids=lambda value: getattr(value, "__name__", ""))
def test_they_give_what_eager_gives_in_one_program(function, inputs):
    actual = torch.compile(function, backend="deepinfer_neuron", fullgraph=True)(*inputs)
    torch.testing.assert_close(actual, function(*inputs))
    assert counters["deepinfer_neuron"]["programs_run"] == 1


@pytest.mark.parametrize(("function", "inputs"), [(branches, [X]), (running, [X])])
def test_gradients_are_those_of_eager(function, inputs):
    def gradients(called):
        leaves = [one.clone().requires_grad_() for one in inputs]
        results = torch.utils._pytree.tree_leaves(called(*leaves))
        return torch.autograd.grad(sum(one.square().sum() for one in results), leaves)

    compiled = torch.compile(function, backend="deepinfer_neuron", fullgraph=True)
    torch.testing.assert_close(gradients(compiled), gradients(function))
