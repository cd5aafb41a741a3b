"""Exact numerics across operators: compilers must not contract, reassociate or reorder what rules emit."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from host_programs import Case, Host, case, trace
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from lowering_cases.values import normal, positive
from ulps import same_bits

aten = torch.ops.aten


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def multiply_then_add(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return a * b + c


def rotate(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return torch.stack([a * b - c * a, a * c + b * b], -1)


def divide_twice(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return a / c / (b.abs() + 0.1) / 3.0


def divide_by_row(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return (a / c[:, :1] + b) / a.sum(-1, keepdim=True)


def scale_by_constants(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return (a * 0.1) * 0.7 + ((b + 0.1) + 0.7) - (c - 0.3)


def mean_square_norm(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return a * torch.rsqrt(a.square().mean(-1, keepdim=True) + 1e-6) * b


def products_of_sums(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    return (a * b).sum(-1) + (b * c).sum(0)[:16]


def narrow_chain(a: torch.Tensor, b: torch.Tensor, c: torch.Tensor) -> torch.Tensor:
    x, y = a.bfloat16(), b.bfloat16()
    return ((x * y + x) / (c.bfloat16() * 3) - 0.3).float() * c


CHAINS = (
    multiply_then_add,
    rotate,
    divide_twice,
    divide_by_row,
    scale_by_constants,
    mean_square_norm,
    products_of_sums,
    narrow_chain,
)


@pytest.mark.parametrize("chain", CHAINS, ids=lambda chain: chain.__name__)
def test_chains_give_eager_bits(host: Host, chain: Callable[..., torch.Tensor]) -> None:
    inputs = [normal(16, 136), normal(16, 136, seed=1), positive(16, 136, seed=2)]
    (actual,) = host.run(trace(chain, *inputs), inputs, "exact")
    expected = chain(*inputs)
    different = int((actual != expected).sum())
    assert same_bits(actual, expected), f"{different} of {expected.numel()} elements differ"


def test_fast_numerics_would_contract(host: Host) -> None:
    """What the pin is for: without it a fifth of the elements differ."""
    inputs = [normal(16, 136), normal(16, 136, seed=1), positive(16, 136, seed=2)]
    (actual,) = host.run(trace(multiply_then_add, *inputs), inputs, "fast")
    torch.testing.assert_close(actual, multiply_then_add(*inputs))


SUM_LENGTHS = sorted({*range(1, 40), 63, 64, 65, 100, 127, 128, 255, 256, 511, 512, 513, 1000, 1024, 2048, 4095, 8192})


@pytest.mark.slow
@pytest.mark.parametrize("start", range(0, len(SUM_LENGTHS), 6))
def test_sums_of_many_lengths(host: Host, start: int) -> None:
    cases: list[Case] = []
    for length in SUM_LENGTHS[start : start + 6]:
        cases.append(case(aten.sum.dim_IntList, normal(3, length), [-1]))
        cases.append(case(aten.mean.dim, normal(2, 2, length), [-1]))
        cases.append(case(aten.sum.dim_IntList, normal(3, length, dtype=torch.bfloat16), [-1]))
        cases.append(case(aten.sum.dim_IntList, normal(2, length).double(), [-1]))
        cases += [case(aten.sum.dim_IntList, normal(length, width), [0]) for width in (1, 3, 8, 13, 33, 70)]
        cases.append(case(aten.sum.dim_IntList, normal(2, length, 9), [1]))
    wrong = [
        str(one)
        for one, actual in zip(cases, host.results(cases, "exact"), strict=True)
        if not all(map(same_bits, actual, one.eager()))
    ]
    assert not wrong, "\n".join(wrong)


UNARY = (torch.neg, torch.abs, torch.square, torch.relu, torch.floor, lambda x: x * 0.3, lambda x: 1.7 - x)
BINARY = (torch.add, torch.sub, torch.mul, torch.div, torch.maximum, lambda x, y: torch.where(x > y, x, y))
FOLDS = (lambda x: x - x.sum(-1, keepdim=True), lambda x: x / (x.abs().amax(-1, keepdim=True) + 1), lambda x: x.flip(0))


@st.composite
def programs(draw: st.DrawFn) -> Callable[..., torch.Tensor]:
    """A random expression over three inputs."""
    steps = draw(
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 99), st.integers(0, 99), st.booleans()), min_size=3, max_size=14
        )
    )

    def program(*inputs: torch.Tensor) -> torch.Tensor:
        values = list(inputs)
        for kind, first, second, narrow in steps:
            x, y = values[first % len(values)], values[second % len(values)]
            if kind == 0:
                value = UNARY[second % len(UNARY)](x)
            elif kind == 1:
                value = BINARY[(first + second) % len(BINARY)](x, y)
            else:
                value = FOLDS[second % len(FOLDS)](x)
            values.append(value.bfloat16().float() if narrow else value)
        return values[-1]

    return program


@pytest.mark.slow
@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(program=programs())
def test_random_programs_give_eager_bits(host: Host, program: Callable[..., torch.Tensor]) -> None:
    inputs = [normal(6, 40), normal(6, 40, seed=1), positive(6, 40, seed=2)]
    (actual,) = host.run(trace(program, *inputs), inputs, "exact")
    expected = program(*inputs)
    tiny = (expected.abs() < 1e-30) & (actual.abs() < 1e-30)
    assert same_bits(torch.where(tiny, 0.0, actual), torch.where(tiny, 0.0, expected))
