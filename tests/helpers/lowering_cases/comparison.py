"""Cases of compiler/lowering/comparison.py."""

from __future__ import annotations

import math

import torch
from host_programs import Case, case

from .values import FLOATS, INTEGERS, booleans, edge_pairs, edges, integers, normal, ties

aten = torch.ops.aten

COMPARISONS = (aten.eq, aten.ne, aten.lt, aten.le, aten.gt, aten.ge)
BITWISE = (aten.bitwise_and, aten.bitwise_or, aten.bitwise_xor, aten.__and__, aten.__or__, aten.__xor__)
SHIFTS = (
    (aten.bitwise_left_shift.Tensor, aten.bitwise_left_shift.Tensor_Scalar),
    (aten.bitwise_right_shift.Tensor, aten.bitwise_right_shift.Tensor_Scalar),
    (aten.__lshift__.Tensor, aten.__lshift__.Scalar),
    (aten.__rshift__.Tensor, aten.__rshift__.Scalar),
)


def _comparisons() -> list[Case]:
    cases = []
    for packet in COMPARISONS:
        cases.append(case(packet.Tensor, *edge_pairs()))
        cases.append(case(packet.Tensor, ties(30, dtype=torch.bfloat16), ties(30)))
        cases.append(case(packet.Tensor, ties(30, dtype=torch.int32), ties(30, seed=1)))
        cases.append(case(packet.Tensor, booleans(9), booleans(9, seed=1)))
        cases.append(case(packet.Tensor, normal(3, 4), torch.tensor(0.25)))
        cases.append(case(packet.Scalar, torch.tensor([0.1, 0.2, 0.3]).bfloat16(), 0.1))
        cases.append(case(packet.Scalar, torch.tensor([0.1, 0.2, 0.3]), 0.1))
        cases.append(case(packet.Scalar, integers(30), 2))
        cases.append(case(packet.Scalar, integers(30), 2.5))
    return cases


def _bits() -> list[Case]:
    cases = []
    for packet in BITWISE:
        for dtype in INTEGERS:
            cases.append(case(packet.Tensor, integers(30, dtype=dtype), integers(30, dtype=dtype, seed=1)))
        cases.append(case(packet.Tensor, booleans(30), booleans(30, seed=1)))
        cases.append(case(packet.Scalar, integers(30, dtype=torch.int32), 5))
    for tensor, scalar in SHIFTS:
        for dtype in INTEGERS:
            cases.append(case(tensor, integers(30, dtype=dtype), integers(30, low=0, high=7, dtype=dtype, seed=1)))
            cases.append(case(scalar, integers(30, dtype=dtype), 3))
    cases += [case(aten.bitwise_not.default, operand) for operand in (integers(9), booleans(9))]
    for overload in (aten.logical_and.default, aten.logical_or.default, aten.logical_xor.default):
        cases.append(case(overload, edges(), edges().flip(0)))
        cases.append(case(overload, booleans(9), integers(9, low=-1, high=2)))
    cases += [case(aten.logical_not.default, operand) for operand in (edges(), booleans(9), integers(9))]
    return cases


def _tests() -> list[Case]:
    return [
        case(overload, operand)
        for overload in (aten.isnan.default, aten.isinf.default)
        for operand in (edges(), edges(torch.bfloat16), integers(5))
    ]


def _choices() -> list[Case]:
    cases = []
    for dtype in FLOATS:
        a, b = edge_pairs(dtype)
        cases += [case(overload, a, b) for overload in (aten.maximum.default, aten.minimum.default)]
        cases.append(case(aten.where.self, booleans(4, 1), normal(4, 5, dtype=dtype), normal(5, dtype=dtype)))
        cases.append(case(aten.masked_fill.Scalar, normal(4, 5, dtype=dtype), booleans(5), float("-inf")))
        cases.append(case(aten.clamp.default, edges(dtype), -0.3, 2))
        cases.append(case(aten.clamp.default, edges(dtype), None, 2.0))
        cases.append(case(aten.clamp_min.default, edges(dtype), 0.1))
        cases.append(case(aten.clamp_max.default, edges(dtype), 0.1))
    cases.append(case(aten.where.self, booleans(4), integers(4, dtype=torch.int32), integers(4)))
    cases.append(case(aten.where.Scalar, booleans(4), 1.5, 2.5))
    cases.append(case(aten.where.ScalarSelf, booleans(4), 1.5, normal(4)))
    cases.append(case(aten.where.ScalarOther, booleans(4), normal(4), 1.5))
    cases.append(case(aten.masked_fill.Tensor, normal(4, 5), booleans(4, 1), torch.tensor(3.0)))
    cases.append(case(aten.maximum.default, integers(9), integers(9, seed=1)))
    cases.append(case(aten.minimum.default, booleans(9), booleans(9, seed=1)))
    cases.append(case(aten.clamp.default, integers(9), -3, 4))
    cases.append(case(aten.clamp.Tensor, normal(4, 5), normal(5) - 1, normal(5, seed=1) + 1))
    cases.append(case(aten.clamp_min.Tensor, normal(4, 5), normal(5)))
    cases.append(case(aten.clamp_max.Tensor, normal(4, 5), normal(5)))
    for overload in (aten.fmax.default, aten.fmin.default):
        cases += [case(overload, normal(9, dtype=dtype), normal(9, dtype=dtype, seed=1)) for dtype in FLOATS]
        cases.append(case(overload, edges()[edges() != 0], normal()))
        cases.append(case(overload, torch.tensor([math.nan, 1.0, math.nan]), torch.tensor([2.0, math.nan, math.nan])))
        cases.append(case(overload, integers(9), integers(9, seed=1)))
    return cases


CASES = _comparisons() + _bits() + _tests() + _choices()
