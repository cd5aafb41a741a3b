"""Cases of compiler/lowering/arithmetic.py."""

from __future__ import annotations

import torch
from host_programs import Case, case

from .values import FLOATS, INTEGERS, booleans, edge_pairs, edges, integers, nonzero_integers, normal, positive

aten = torch.ops.aten


def _two_operands() -> list[Case]:
    cases = []
    for overload in (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor, aten.remainder.Tensor):
        for dtype in FLOATS:
            cases.append(case(overload, normal(8, 33, dtype=dtype), positive(8, 33, dtype=dtype, seed=1)))
            cases.append(case(overload, normal(2, 1, 5, dtype=dtype), positive(3, 1, dtype=dtype)))
            cases.append(case(overload, normal(4, 5, dtype=dtype), torch.tensor(0.3)))
        cases.append(case(overload, *edge_pairs()))
        cases.append(case(overload, normal(6, dtype=torch.bfloat16), positive(6)))
        cases.append(case(overload, integers(6), positive(6)))
        for dtype in INTEGERS:
            cases.append(case(overload, integers(40, dtype=dtype), nonzero_integers(40, dtype=dtype, seed=2)))
    cases.append(case(aten.add.Tensor, booleans(9), booleans(9, seed=1)))
    cases.append(case(aten.mul.Tensor, booleans(9), booleans(9, seed=1)))
    cases.append(case(aten.mul.Tensor, normal(0, 3), normal(0, 3)))
    cases.append(case(aten.add.Tensor, integers(6, dtype=torch.int32), integers(6), alpha=3))
    return cases


def _scalars() -> list[Case]:
    overloads = (
        aten.add.Scalar,
        aten.sub.Scalar,
        aten.mul.Scalar,
        aten.div.Scalar,
        aten.rsub.Scalar,
        aten.remainder.Scalar,
        aten.fmod.Scalar,
        aten.floor_divide.Scalar,
    )
    return [
        case(overload, operand, number)
        for overload in overloads
        for operand in (normal(40), normal(40, dtype=torch.bfloat16), edges(), integers(40))
        for number in (0.3, -7)
    ]


def _division() -> list[Case]:
    cases = []
    for mode in ("floor", "trunc", None):
        cases.append(case(aten.div.Tensor_mode, normal(50), positive(50, seed=1), rounding_mode=mode))
        cases.append(case(aten.div.Tensor_mode, integers(50), nonzero_integers(50, seed=1), rounding_mode=mode))
        cases.append(case(aten.div.Scalar_mode, integers(50), -3, rounding_mode=mode))
        cases.append(case(aten.div.Scalar_mode, normal(50, dtype=torch.bfloat16), 0.3, rounding_mode=mode))
    cases.append(case(aten.div.Tensor_mode, *edge_pairs(), rounding_mode="floor"))
    cases.append(case(aten.div.Tensor_mode, *edge_pairs(), rounding_mode="trunc"))
    cases.append(case(aten.floor_divide.default, integers(50, dtype=torch.uint8), 3 + integers(50, dtype=torch.uint8)))
    cases.append(case(aten.floor_divide.default, normal(50), positive(50, seed=1)))
    cases.append(case(aten.fmod.Tensor, *edge_pairs()))
    cases.append(case(aten.fmod.Tensor, integers(50), nonzero_integers(50, seed=1)))
    cases.append(case(aten.remainder.Scalar_Tensor, 7, nonzero_integers(50)))
    cases.append(case(aten.rsub.Tensor, normal(5), normal(5, seed=1)))
    return cases


def _combined() -> list[Case]:
    cases = []
    for dtype in FLOATS:
        a, b, c = normal(40, dtype=dtype), normal(40, dtype=dtype, seed=1), positive(40, dtype=dtype, seed=2)
        cases.append(case(aten.addcmul.default, a, b, c))
        cases.append(case(aten.addcdiv.default, a, b, c))
        cases.append(case(aten.lerp.Scalar, a, b, 0.3))
        cases.append(case(aten.lerp.Tensor, a, b, c / 5))
        cases.append(case(aten.square.default, a))
        cases.append(case(aten.atan2.default, a, b))
        cases.append(case(aten.reciprocal.default, c))
    cases.append(case(aten.reciprocal.default, edges()))
    cases.append(case(aten.square.default, integers(5)))
    return cases


def _powers() -> list[Case]:
    cases = [
        case(aten.pow.Tensor_Scalar, operand, exponent)
        for operand in (positive(40), positive(40, dtype=torch.bfloat16))
        for exponent in (0, 1, 2, 3, 0.5, -0.5, -1, -2)
    ]
    cases.append(case(aten.pow.Tensor_Scalar, positive(40), 1.7))
    cases += [case(aten.pow.Tensor_Scalar, integers(40), exponent) for exponent in (0, 1, 2, 3, 5)]
    cases.append(case(aten.pow.Tensor_Scalar, integers(40), 1.5))
    cases.append(case(aten.pow.Tensor_Scalar, edges(), 2))
    cases.append(case(aten.pow.Tensor_Tensor, positive(40), normal(40)))
    cases.append(case(aten.pow.Scalar, 2, integers(40).float()))
    return cases


CASES = _two_operands() + _scalars() + _division() + _combined() + _powers()
