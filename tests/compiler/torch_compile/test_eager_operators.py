from __future__ import annotations

import pytest
import torch
from torch import nn
from torch._dynamo.utils import counters
from torch.nn import functional

BACKEND = "deepinfer_neuron"


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)
    counters[BACKEND].clear()
    yield
    torch._dynamo.reset()


def split(function, **keywords):
    return torch.compile(function, backend=BACKEND, options={"unsupported": "eager"}, fullgraph=True, **keywords)


def counted():
    names = ("programs_compiled", "programs_run", "operators_left_in_eager", "operators_run_in_eager")
    return tuple(counters[BACKEND][name] for name in names)


@torch.library.custom_op("deepinfer_tests::bottom", mutates_args=())
def bottom(x: torch.Tensor) -> torch.Tensor:
    return x.min(dim=0).values.clone()


@bottom.register_fake
def _(x):
    return x.new_empty(x.shape[1:])


def between(x):
    return torch.linalg.svdvals(x @ x) * 2 + 1


def alone(x):
    return torch.linalg.svdvals(x)


def several_results(x):
    u, s, v = torch.linalg.svd(x.clone() + 1)
    return (u * s) @ v, s.sum(), x.t(), 3


def somebody_elses(x):
    return bottom(x * 2) + 1


@pytest.mark.parametrize(
    ("function", "programs", "eager"),
    [(between, 2, 1), (several_results, 2, 1), (somebody_elses, 2, 1), (alone, 0, 1)],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_has_no_lowering_runs_between_programs(function, programs, eager):
    x = torch.randn(4, 4)
    compiled = split(function)
    with pytest.warns(UserWarning, match=r"operators without a lowering run in eager PyTorch: \S+ at \S+:\d+$"):
        torch.testing.assert_close(compiled(x), function(x))
    torch.testing.assert_close(compiled(x), function(x))
    assert counted() == (programs, 2 * programs, eager, 2 * eager)


def test_a_graph_that_can_be_lowered_is_one_program(recwarn):
    assert torch.equal(split(lambda x: x * 2)(torch.ones(3)), torch.full((3,), 2.0))
    assert counted() == (1, 1, 0, 0)
    assert not [one for one in recwarn if "without a lowering" in str(one.message)]


def test_without_the_option_it_is_refused():
    with pytest.raises(Exception, match=r"aten\._linalg_svd\.default at .*no lowering"):
        torch.compile(between, backend=BACKEND)(torch.randn(4, 4))
    assert counted() == (0, 0, 0, 0)


def test_the_option_has_two_values():
    with pytest.raises(Exception, match="unknown unsupported='maybe': expected 'error' or 'eager'"):
        torch.compile(between, backend=BACKEND, options={"unsupported": "maybe"})(torch.randn(4, 4))


def test_inputs_are_updated():
    def step(x, y):
        x.add_(torch.linalg.svdvals(y))
        return x * 2, torch.linalg.svdvals(y + x)

    y = torch.randn(4, 4)
    x, eager_x = torch.ones(4), torch.ones(4)
    compiled = split(step)
    for _ in range(2):
        torch.testing.assert_close(compiled(x, y), step(eager_x, y))
        torch.testing.assert_close(x, eager_x)
    assert counted()[2:] == (2, 4)


@pytest.mark.parametrize("draw", [lambda x: torch.rand(4) + x * 2, lambda x: functional.dropout(x * 2) + 1])
def test_random_numbers_are_those_of_eager(draw):
    x = torch.randn(4, 4)
    compiled = split(draw)
    torch.manual_seed(3)
    expected = [draw(x), draw(x)]
    torch.manual_seed(3)
    assert all(torch.equal(compiled(x), one) for one in expected)
    assert counted()[2:] == (1, 2)


def test_gradients():
    linear = nn.Linear(4, 4)
    x = torch.randn(2, 4, 4)

    def loss(x):
        return torch.linalg.det(linear(x)).abs().log1p().sum()

    loss(x).backward()
    expected = [parameter.grad.clone() for parameter in linear.parameters()]
    linear.zero_grad()
    split(loss)(x).backward()
    torch.testing.assert_close([parameter.grad for parameter in linear.parameters()], expected)
    assert counted()[2] >= 2


def test_shapes_that_depend_on_data():
    def positive(x):
        return (x + 1)[x > 0].sum() * 2

    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = split(positive)
        for x in (torch.randn(9), -torch.ones(9)):
            torch.testing.assert_close(compiled(x), positive(x))
    assert counted()[0] == 2
