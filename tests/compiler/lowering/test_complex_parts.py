from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.errors import LoweringError
from torch._dynamo.utils import counters


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    counters.clear()
    yield
    torch._dynamo.reset()


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.complex64) -> torch.Tensor:
    return torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed))


def rotary(x, turns):
    """Rotary position embedding as Llama first had it: x [tokens, heads, width], turns [tokens, width / 2]."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns.unsqueeze(1)).flatten(2).type_as(x)


def arithmetic(x, y):
    return x * y + 2j * x - y / (x + 3), x.conj(), (x * 1.5).real, y.imag, x.abs(), x.angle()


def functions(x):
    return x.exp(), x.sqrt(), x.sin(), x.tanh(), torch.polar(x.abs(), x.angle()), x.sum(0), x.mean()


def shapes(x, y):
    parts = torch.cat([x, y], 0).split([1, 4, 3])
    return parts[1].transpose(0, 1), torch.stack([x, y])[:, 1:, ::2], x[torch.tensor([2, 0])], x.reshape(-1).unbind()[3]


def conversions(x):
    return (
        x.to(torch.complex128),
        torch.complex(x, x + 1),
        x.to(torch.complex64) * 2,
        torch.full((2,), 1 + 2j) * x[:2, 0],
    )


def products(x, y):
    return x @ y.mT, torch.einsum("ab,cb->ac", x, y)


def transforms(x):
    signal = x.real.contiguous()
    return torch.fft.fft2(x), torch.fft.ifft(x, norm="ortho"), torch.fft.rfft(signal), torch.fft.irfft(x, n=7)


def comparisons(x, y):
    return x == y, x != x, torch.isnan(x), torch.where(x.real > 0, x, y)


X, Y = normal(4, 6), normal(4, 6, seed=1)
PROGRAMS = [
    (rotary, (normal(5, 2, 8, dtype=torch.float32), torch.polar(torch.ones(5, 4), torch.arange(20.0).reshape(5, 4)))),
    (rotary, (normal(5, 2, 8, dtype=torch.float32).bfloat16(), normal(5, 4))),
    (arithmetic, (X, Y)),
    (arithmetic, (normal(), normal(seed=1))),
    (functions, (X,)),
    (shapes, (X, Y)),
    (conversions, (X.real.contiguous(),)),
    (products, (X, Y)),
    (transforms, (X,)),
    (comparisons, (X, Y)),
    (arithmetic, (X.T, Y.T)),
    (arithmetic, (normal(3, dtype=torch.complex128), normal(3, seed=1, dtype=torch.complex128))),
]


@pytest.mark.parametrize(("function", "inputs"), PROGRAMS, ids=lambda value: getattr(value, "__name__", ""))
def test_complex_programs_give_what_eager_gives(function, inputs):
    actual = torch.compile(function, backend="deepinfer_neuron", fullgraph=True)(*inputs)
    for got, expected in zip(
        torch.utils._pytree.tree_leaves(actual), torch.utils._pytree.tree_leaves(function(*inputs)), strict=True
    ):
        assert got.is_conj() == expected.is_conj()
        torch.testing.assert_close(got, expected)
    assert counters["deepinfer_neuron"]["programs_run"] == 1


def test_complex_inputs_are_updated_in_place():
    def update(x, y):
        x.mul_(y)
        return x.real + 1

    x, y = X.clone(), X.clone()
    torch.testing.assert_close(torch.compile(update, backend="deepinfer_neuron")(x, Y), update(y, Y))
    torch.testing.assert_close(x, y)


def test_gradients_flow_through_complex_numbers():
    def loss(x, turns):
        return rotary(x, turns).square().sum()

    x, turns = normal(5, 2, 8, dtype=torch.float32).requires_grad_(), normal(5, 4)
    (expected,) = torch.autograd.grad(loss(x, turns), x)
    (actual,) = torch.autograd.grad(torch.compile(loss, backend="deepinfer_neuron")(x, turns), x)
    torch.testing.assert_close(actual, expected)


def test_operators_without_a_rule_are_refused_with_their_line():
    def sorts(x):
        return torch.linalg.inv(x)

    line = sorts.__code__.co_firstlineno + 1
    with pytest.raises(
        Exception, match=rf"linalg_inv.* at .*test_complex_parts.py:{line} with complex numbers"
    ) as caught:
        torch.compile(sorts, backend="deepinfer_neuron", fullgraph=True)(normal(3, 3))
    assert isinstance(caught.value.inner_exception, LoweringError)
