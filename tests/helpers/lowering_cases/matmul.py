"""Cases of compiler/lowering/matmul.py."""

from __future__ import annotations

import torch
from host_programs import Case, case

from .values import integers, normal

aten = torch.ops.aten


def _products(dtype: torch.dtype) -> list[Case]:
    def draw(*shape: int, seed: int = 0) -> torch.Tensor:
        return normal(*shape, dtype=dtype, seed=seed)

    return [
        case(aten.mm.default, draw(4, 96), draw(96, 24, seed=1)),
        case(aten.mm.default, draw(1, 96), draw(96, 24, seed=1)),
        case(aten.bmm.default, draw(3, 4, 32), draw(3, 32, 5, seed=1)),
        case(aten.bmm.default, draw(3, 1, 32), draw(3, 32, 5, seed=1)),
        case(aten.mv.default, draw(4, 96), draw(96, seed=1)),
        case(aten.dot.default, draw(96), draw(96, seed=1)),
        case(aten.addmm.default, draw(24, seed=2), draw(4, 96), draw(96, 24, seed=1)),
        case(aten.addmm.default, draw(4, 24, seed=2), draw(4, 96), draw(96, 24, seed=1), beta=0.5, alpha=2),
        case(aten.addmm.default, draw(4, 24, seed=2), draw(4, 96), draw(96, 24, seed=1), beta=0),
        case(aten.baddbmm.default, draw(3, 4, 5, seed=2), draw(3, 4, 32), draw(3, 32, 5, seed=1)),
        case(aten.linear.default, draw(2, 3, 96), draw(24, 96, seed=1)),
        case(aten.linear.default, draw(3, 96), draw(24, 96, seed=1), draw(24, seed=2)),
        case(aten.linear.default, draw(96), draw(24, 96, seed=1)),
        case(aten.matmul.default, draw(3, 96), draw(96, 4, seed=1)),
        case(aten.matmul.default, draw(2, 1, 3, 16), draw(5, 16, 4, seed=1)),
        case(aten.matmul.default, draw(16), draw(16, 4, seed=1)),
        case(aten.matmul.default, draw(2, 4, 16), draw(16, seed=1)),
        case(aten.matmul.default, draw(16), draw(16, seed=1)),
    ]


CASES = [
    *_products(torch.float32),
    *_products(torch.bfloat16),
    case(aten.mm.default, integers(4, 5), integers(5, 6, seed=1)),
    case(
        aten._int_mm.default,
        integers(17, 32, low=-128, high=128, dtype=torch.int8),
        integers(32, 8, low=-128, high=128, dtype=torch.int8, seed=1),
    ),
]
