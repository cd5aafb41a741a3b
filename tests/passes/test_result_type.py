"""Results described without data have the dtype, shape and strides of the real ones."""

from __future__ import annotations

import itertools

import pytest
import torch
from deepinfer_neuron.passes.result_type import as_type, result_type

aten = torch.ops.aten
DTYPES = (torch.bool, torch.uint8, torch.int32, torch.int64, torch.bfloat16, torch.float32, torch.float64)
BINARY = (
    *(aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.maximum.default, aten.lt.Tensor),
    *(aten.copysign.Tensor, aten.eq.Tensor, aten.pow.Tensor_Tensor, aten.atan2.default),
)
UNARY = (aten.exp.default, aten.abs.default, aten.neg.default, aten.isnan.default, aten.clone.default)
SHAPES = (((2, 3), (2, 3)), ((2, 1), (1, 3)), ((3,), (2, 3)), ((), (2, 3)), ((2, 3), ()), ((), ()))


def described(value):
    return [
        (one.dtype, tuple(one.shape), one.stride()) for one in (value if isinstance(value, (tuple, list)) else (value,))
    ]


def check(target, *args, **kwargs):
    """Compare with eager, unless eager refuses the call."""
    try:
        expected = target(*args, **kwargs)
    except (RuntimeError, NotImplementedError):
        return 0
    types = [as_type(one) if isinstance(one, torch.Tensor) else one for one in args]
    for _ in range(2):
        assert described(result_type(target, types, kwargs)) == described(expected), (target, args, kwargs)
    return 1


@pytest.mark.parametrize("target", BINARY, ids=str)
def test_two_operands(target):
    pairs = itertools.product(DTYPES, DTYPES, SHAPES)
    cases = [(torch.ones(a, dtype=left), torch.ones(b, dtype=right)) for left, right, (a, b) in pairs]
    assert sum(check(target, *case) for case in cases) > 100


@pytest.mark.parametrize("target", UNARY, ids=str)
def test_one_operand(target):
    assert sum(check(target, torch.ones(2, 3, dtype=dtype)) for dtype in DTYPES) >= 5


@pytest.mark.parametrize("target", [aten.add.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.clamp.default], ids=str)
def test_numbers(target):
    cases = itertools.product(DTYPES, (2, 2.5, True))
    assert sum(check(target, torch.ones(2, 3, dtype=dtype), number) for dtype, number in cases) > 10


def test_arguments_that_decide_the_type():
    x, y = torch.ones(2, 3, dtype=torch.int32), torch.ones(3, dtype=torch.int32)
    assert check(aten.div.Tensor_mode, x, y, rounding_mode="floor")
    assert check(aten.div.Tensor_mode, x, y, rounding_mode=None)
    assert check(aten.where.self, x > 0, x, torch.ones(2, 1, dtype=torch.int64))
    assert check(aten.clone.default, torch.ones(1, 2, 3, 4), memory_format=torch.channels_last)


def test_strides_of_operands_that_are_not_contiguous():
    x = torch.ones(3, 2).t()
    assert check(aten.add.Tensor, x, x)
    assert check(aten.add.Tensor, x, torch.ones(2, 3))
    assert check(aten.exp.default, torch.ones(2, 4)[:, ::2])


def test_other_operators_and_several_results():
    x = torch.ones(2, 3)
    assert check(aten.split.Tensor, x, 1)
    assert check(aten.sort.stable, x, stable=True, dim=-1)
    assert check(aten.frexp.Tensor, x)
    full = result_type(aten.full.default, ([2], 1.0), {"device": torch.device("cpu"), "dtype": torch.int32})
    assert full.is_meta
    assert described(full) == described(torch.ones(2, dtype=torch.int32))
