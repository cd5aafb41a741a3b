"""Cases of compiler/lowering/convolution.py."""

from __future__ import annotations

import torch
from host_programs import Case, case

from .values import integers, normal

aten = torch.ops.aten

SPACES = ((11,), (9, 7), (5, 6, 7))


def _forward(dtype: torch.dtype) -> list[Case]:
    cases = []
    for space in SPACES:
        count = len(space)
        x = normal(2, 4, *space, dtype=dtype)
        ones, twos, none = [1] * count, [2] * count, [0] * count
        kernel = normal(6, 4, *[3] * count, dtype=dtype, seed=1)
        grouped = normal(6, 2, *[3] * count, dtype=dtype, seed=1)
        bias = normal(6, dtype=dtype, seed=2)
        cases.append(case(aten.convolution.default, x, kernel, bias, ones, none, ones, False, none, 1))
        cases.append(case(aten.convolution.default, x, kernel, None, twos, ones, ones, False, none, 1))
        cases.append(case(aten.convolution.default, x, kernel, None, ones, twos, twos, False, none, 1))
        cases.append(case(aten.convolution.default, x, grouped, bias, twos, none, ones, False, none, 2))
        back = normal(4, 3, *[3] * count, dtype=dtype, seed=1)
        cases.append(case(aten.convolution.default, x, back, None, ones, none, ones, True, none, 1))
        cases.append(case(aten.convolution.default, x, back, None, twos, ones, ones, True, ones, 1))
        cases.append(case(aten.convolution.default, x, back, bias, twos, none, twos, True, none, 2))
    return cases


def _backward() -> list[Case]:
    cases = []
    for space in SPACES:
        count = len(space)
        ones, twos, none = [1] * count, [2] * count, [0] * count
        x = normal(2, 4, *space)
        for transposed, groups, stride, padding, dilation in (
            (False, 1, ones, none, ones),
            (False, 2, twos, ones, ones),
            (False, 1, twos, twos, twos),
            (True, 1, twos, ones, ones),
            (True, 2, ones, none, twos),
        ):
            kernel = (
                normal(4, 6 // groups, *[3] * count, seed=1) if transposed else normal(6, 4 // groups, *[3] * count)
            )
            window = (stride, padding, dilation, transposed, none, groups)
            shape = aten.convolution.default(x, kernel, None, *window).shape
            gradient = normal(*shape, seed=3)
            cases.append(case(aten.convolution_backward.default, gradient, x, kernel, [6], *window, [True, True, True]))
    return cases


CASES = [
    *_forward(torch.float32),
    *_forward(torch.bfloat16)[:2],
    *_backward(),
    case(aten.convolution.default, normal(0, 4, 8), normal(6, 4, 3), None, [1], [0], [1], False, [0], 1),
    case(aten.convolution.default, integers(1, 2, 8), integers(3, 2, 3, seed=1), None, [1], [0], [1], False, [0], 1),
]
