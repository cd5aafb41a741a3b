"""Cases of compiler/lowering/pointwise.py and special_functions.py."""

from __future__ import annotations

import math

import torch
from host_programs import Case, case

from .values import FLOATS, edge_pairs, edges, integers, normal, positive

aten = torch.ops.aten

ANYWHERE = (
    aten.exp.default,
    aten.expm1.default,
    aten.exp2.default,
    aten.tanh.default,
    aten.sin.default,
    aten.cos.default,
    aten.tan.default,
    aten.neg.default,
    aten.floor.default,
    aten.ceil.default,
    aten.round.default,
    aten.trunc.default,
    aten.abs.default,
    aten.sign.default,
    aten.sgn.default,
    aten.sigmoid.default,
    aten.silu.default,
    aten.relu.default,
    aten.leaky_relu.default,
    aten.softplus.default,
    aten.gelu.default,
    aten.erf.default,
)
ABOVE_ZERO = (
    aten.log.default,
    aten.log1p.default,
    aten.log2.default,
    aten.log10.default,
    aten.sqrt.default,
    aten.rsqrt.default,
)
ON_INTEGERS = (
    aten.neg.default,
    aten.abs.default,
    aten.sign.default,
    aten.floor.default,
    aten.ceil.default,
    aten.round.default,
    aten.trunc.default,
    aten.relu.default,
    aten.exp.default,
    aten.sqrt.default,
    aten.sigmoid.default,
)
BETWEEN_ONES = (aten.asin.default, aten.acos.default)
UNBOUNDED = (aten.atan.default, aten.sinh.default, aten.cosh.default)
UNDEFINED_AT_EDGES = (aten.sin.default, aten.cos.default, aten.tan.default, aten.gelu.default)
"""Angles of 1e30 depend on the argument reduction; eager gelu gives NaN or infinity depending on the lane."""


def _floats() -> list[Case]:
    cases = []
    for dtype in FLOATS:
        cases += [case(overload, normal(16, 129, dtype=dtype) * 3) for overload in ANYWHERE]
        cases += [case(overload, positive(16, 129, dtype=dtype)) for overload in ABOVE_ZERO]
        cases += [case(overload, normal(16, 129, dtype=dtype)) for overload in UNBOUNDED]
        cases += [case(overload, torch.tanh(normal(16, 129, dtype=dtype))) for overload in BETWEEN_ONES]
    cases += [case(overload, edges()) for overload in (*ANYWHERE, *ABOVE_ZERO) if overload not in UNDEFINED_AT_EDGES]
    cases += [case(overload, edges(torch.bfloat16)) for overload in (aten.floor.default, aten.round.default)]
    return cases


def _special_functions() -> list[Case]:
    cases = []
    for dtype in FLOATS:
        x, unit = normal(16, 129, dtype=dtype), positive(16, 129, dtype=dtype)
        cases.append(case(aten.asinh.default, x))
        cases.append(case(aten.acosh.default, unit + 1))
        cases += [case(one, torch.tanh(x)) for one in (aten.atanh.default, aten.erfinv.default)]
        cases += [case(one, x) for one in (aten.erfc.default, aten.signbit.default, aten.angle.default)]
        cases += [case(one, unit) for one in (aten.lgamma.default, aten.digamma.default)]
        cases += [case(aten.polygamma.default, order, unit) for order in (0, 1)]
        cases += [case(one, x, unit) for one in (aten.hypot.default, aten.nextafter.default)]
    cases += [case(one, edges()) for one in (aten.signbit.default, aten.angle.default, aten.erfc.default)]
    cases += [case(one, integers(9)) for one in (aten.signbit.default, aten.angle.default)]
    cases.append(case(aten.digamma.default, torch.tensor([0.0, -0.0])))
    cases.append(case(aten.polygamma.default, 1, torch.tensor([-0.5, -1.3, 0.3])))
    cases.append(case(aten.hypot.default, torch.tensor([0.0, 3e30, math.inf]), torch.tensor([0.0, 4e30, math.nan])))
    return cases


CASES = [
    *_floats(),
    *[case(overload, integers(30).abs()) for overload in ON_INTEGERS],
    case(aten.abs.default, integers(30, dtype=torch.uint8)),
    case(aten.copysign.Tensor, *edge_pairs()),
    case(aten.copysign.Tensor, normal(9, dtype=torch.bfloat16), normal(9, dtype=torch.bfloat16, seed=1)),
    case(aten.copysign.Scalar, edges(), -0.0),
    case(aten.gelu.default, normal(16, 129), approximate="tanh"),
    case(aten.gelu.default, normal(16, 129, dtype=torch.bfloat16), approximate="tanh"),
    case(aten.softplus.default, normal(40) * 20, 2.0, 10.0),
    case(aten.leaky_relu.default, normal(40), 0.2),
    *_special_functions(),
]
