"""Cases of compiler/lowering/primitives.py."""

from __future__ import annotations

import torch
from host_programs import Case, case

from .values import booleans, edges, integers, normal, positive

prims = torch.ops.prims

ONE_FLOAT = (
    "abs acos asin asinh atan atanh ceil cos cosh digamma erf erf_inv erfc exp exp2 expm1 floor lgamma log log1p "
    "log2 neg reciprocal round rsqrt sign sin sinh sqrt tan tanh trunc isfinite"
)
TWO_FLOATS = "add atan2 div eq fmod ge gt le lt maximum minimum mul ne pow remainder sub"
TWO_INTEGERS = "add bitwise_and bitwise_or bitwise_xor eq maximum mul shift_left shift_right_arithmetic sub"
FOLDS = "amax amin prod sum"


def _elementwise() -> list[Case]:
    unit = positive(40) / 5
    cases = [case(getattr(prims, name).default, unit) for name in ONE_FLOAT.split()]
    cases += [case(getattr(prims, name).default, unit, positive(40, seed=1)) for name in TWO_FLOATS.split()]
    counts = integers(40, low=0, high=9)
    cases += [case(getattr(prims, name).default, counts, counts.flip(0)) for name in TWO_INTEGERS.split()]
    return cases


CASES = [
    *_elementwise(),
    *[case(getattr(prims, name).default, positive(4, 5, 6), [0, 2]) for name in FOLDS.split()],
    case(prims.isfinite.default, edges()),
    case(prims.acosh.default, positive(40) + 1),
    case(prims.bitwise_not.default, integers(9)),
    case(prims.where.default, booleans(9), normal(9), normal(9, seed=1)),
    case(prims.var.default, normal(4, 5), [1], 1),
    case(prims.cat.default, [normal(2, 3), normal(4, 3)], 0),
    case(prims.rev.default, normal(2, 3), [1]),
    case(prims.transpose.default, normal(2, 3, 4), [2, 0, 1]),
    case(prims.broadcast_in_dim.default, normal(3, 1), [3, 2, 4], [0, 2]),
    case(prims.squeeze.default, normal(3, 1), [1]),
    case(prims.split_dim.default, normal(6, 2), 0, 3),
    case(prims.collapse_view.default, normal(6, 2), 0, 1),
    case(prims.reshape.default, normal(6, 2), [4, 3]),
]
