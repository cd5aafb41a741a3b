"""Cases of compiler/lowering/pooling.py."""

from __future__ import annotations

import math

import torch
from host_programs import Case, case

from .values import normal, ties

aten = torch.ops.aten

MEANS = {2: aten.avg_pool2d.default, 3: aten.avg_pool3d.default}
BACKWARD = {2: aten.avg_pool2d_backward.default, 3: aten.avg_pool3d_backward.default}
MAXIMA = {2: aten.max_pool2d_with_indices.default, 3: aten.max_pool3d_with_indices.default}
SPACES = {2: (9, 7), 3: (6, 7, 5)}


def _with_specials() -> torch.Tensor:
    x = normal(1, 1, 6, 6)
    x[0, 0, 1, 1] = x[0, 0, 2, 2] = math.nan
    x[0, 0, 4:] = -math.inf
    x[0, 0, 0, 5] = math.inf
    return x


def _windows(count: int) -> list[Case]:
    cases = []
    x = normal(2, 3, *SPACES[count])
    for arguments in (
        ([3] * count,),
        ([3],),
        ([3] * count, [2] * count, [1] * count),
        ([3] * count, [2] * count, [1] * count, True),
        ([2] * count, [3] * count),
        ([3] * count, [2] * count, [1] * count, False, False),
        ([3] * count, [2] * count, [1] * count, True, True, 5),
    ):
        cases.append(case(MEANS[count], x, *arguments))
        full = [*arguments, *([[], [0] * count, False, True, None][len(arguments) - 1 :])]
        gradient = normal(*MEANS[count](x, *arguments).shape, seed=1)
        cases.append(case(BACKWARD[count], gradient, x, *full))
    for arguments in (
        ([3] * count,),
        ([3] * count, [2] * count, [1] * count),
        ([3] * count, [2] * count, [1] * count, [1] * count, True),
        ([2] * count, [1] * count, [0] * count, [2] * count),
    ):
        cases.append(case(MAXIMA[count], x, *arguments))
        cases.append(case(MAXIMA[count], ties(3, *SPACES[count]), *arguments))
    cases.append(case(MEANS[count], x.bfloat16(), [2] * count))
    cases.append(case(MAXIMA[count], x.bfloat16(), [2] * count))
    return cases


CASES = [
    *_windows(2),
    *_windows(3),
    case(aten.max_pool2d_with_indices.default, _with_specials(), [3, 3], [1, 1], [1, 1]),
    case(aten.max_pool2d_with_indices.default, _with_specials(), [2, 2]),
    case(aten.avg_pool2d.default, _with_specials(), [2, 2]),
]
