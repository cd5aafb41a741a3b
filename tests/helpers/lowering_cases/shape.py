"""Cases of compiler/lowering/shape.py, creation.py and cast.py."""

from __future__ import annotations

import torch
from host_programs import Case, case

from .values import FLOATS, INTEGERS, booleans, edges, integers, normal, positive

aten = torch.ops.aten
prims = torch.ops.prims

X = normal(4, 6, 5)

SHAPES = [
    case(aten.view.default, X, [24, 5]),
    case(aten.view.default, X, [-1]),
    case(aten.reshape.default, X, [2, 2, 30]),
    case(aten._unsafe_view.default, X, [120]),
    case(aten.view_copy.default, X, [120]),
    case(prims.view_of.default, X),
    case(aten.unsqueeze.default, X, -1),
    case(aten.squeeze.default, normal(1, 3, 1)),
    case(aten.squeeze.dim, normal(1, 3, 1), 0),
    case(aten.squeeze.dims, normal(1, 3, 1), [0, 2]),
    case(aten.permute.default, X, [2, 0, -2]),
    case(aten.transpose.int, X, 0, -1),
    case(aten.t.default, normal(3, 4)),
    case(aten.t.default, normal(3)),
    case(aten.expand.default, normal(3, 1), [2, 3, 4]),
    case(aten.expand.default, normal(3, 1), [-1, 4]),
    case(aten.repeat.default, normal(3, 2), [2, 1, 3]),
    case(aten.slice.Tensor, X, 1, 1, 5, 2),
    case(aten.slice.Tensor, X, -1, -3, 9223372036854775807),
    case(aten.slice.Tensor, X, 0, 3, 2),
    case(aten.slice.Tensor, X),
    case(aten.select.int, X, -2, -1),
    case(aten.cat.default, [X, X[:1], normal(0)], 0),
    case(aten.cat.default, [normal(3), integers(2)], 0),
    case(aten.cat.default, [normal(2, 3, dtype=torch.bfloat16), normal(2, 1, dtype=torch.bfloat16)], -1),
    case(aten.stack.default, [X, X + 1], -1),
    case(aten.stack.default, [X, X + 1], 1),
    case(aten.split.Tensor, X, 4, 1),
    case(aten.split_with_sizes.default, X, [1, 3, 2], 1),
    case(aten.unsafe_split.Tensor, X, 4, 1),
    case(aten.chunk.default, X, 4, 1),
    case(aten.unbind.int, X, 1),
    case(aten.flip.default, X, [0, -1]),
    case(aten.roll.default, X, [2], [1]),
    case(aten.roll.default, X, [-7, 1], [1, 0]),
    case(aten.roll.default, X, [3]),
    case(aten.constant_pad_nd.default, X, [1, 2, 0, 3], 1.5),
    case(aten.constant_pad_nd.default, X, [-1, 2]),
    case(aten.slice_scatter.default, X, normal(4, 2, 5, seed=1), 1, 3, 5),
    case(aten.slice_scatter.default, X, normal(4, 2, 5, seed=1), 1, 1, 5, 2),
    case(aten.slice_scatter.default, X, normal(4, 6, 5, seed=1)),
    case(aten.select_scatter.default, X, normal(4, 5, seed=1), 1, -2),
    case(aten.tril.default, X),
    case(aten.triu.default, X, 1),
    case(aten.tril.default, normal(3, 3), -1),
    case(aten.permute.default, normal(0, 3), [1, 0]),
]

CREATIONS = [
    case(aten.full.default, [2, 3], 1.5),
    case(aten.full.default, [2], 7, dtype=torch.int32),
    case(aten.full.default, [], float("-inf")),
    case(aten.full.default, [2], 0.1, dtype=torch.bfloat16),
    case(aten.full.default, [2], True),
    case(aten.full_like.default, X, 2.0),
    case(aten.full_like.default, X, 2, dtype=torch.int64),
    case(aten.new_full.default, X, [3], 4.0),
    case(aten.fill.Scalar, X, 2.0),
    case(aten.fill.Tensor, X, torch.tensor(2.0)),
    case(aten.scalar_tensor.default, 0.1),
    case(aten.zeros.default, [2, 3]),
    case(aten.zeros_like.default, X),
    case(aten.new_zeros.default, X, [2]),
    case(aten.ones.default, [2], dtype=torch.uint8),
    case(aten.ones_like.default, X),
    case(aten.new_ones.default, X, [2]),
    case(aten.arange.default, 5),
    case(aten.arange.start, 2, 9),
    case(aten.arange.start_step, 1, 9, 3),
    case(aten.arange.start_step, 1.0, 2.0, 0.1),
    case(aten.arange.default, 6, dtype=torch.bfloat16),
    case(prims.iota.default, 6, start=2, step=3, dtype=torch.int32, device="cpu", requires_grad=False),
]

UNDEFINED = [
    case(aten.empty.memory_format, [2, 3]),
    case(aten.empty_like.default, X),
    case(aten.new_empty.default, X, [2]),
    case(aten.empty_strided.default, [2, 3], [3, 1]),
    case(aten.new_empty_strided.default, X, [2, 3], [3, 1]),
    case(aten.empty_permuted.default, [2, 3], [1, 0]),
]
"""PyTorch leaves these values undefined: only shape and type are compared."""


def _casts() -> list[Case]:
    kinds = (*FLOATS, torch.float16, torch.float64, *INTEGERS, torch.bool)
    small = torch.tensor([0.0, 1.0, 2.5, 3.9, 100.25, 7.0])
    signed = torch.tensor([-1.0, -2.5, -100.9, 1e-3])
    fp8 = torch.tensor([0.0, -0.0, 1.0, 448.0, 500.0, -1e9, 1.0625, 0.0171, float("nan")])
    cases = [case(aten._to_copy.default, small.to(a), dtype=b) for a in kinds for b in kinds if a is not b]
    for dtype in (torch.int8, torch.int64, torch.bool, torch.bfloat16):
        cases.append(case(aten._to_copy.default, signed, dtype=dtype))
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        cases.append(case(aten._to_copy.default, fp8, dtype=dtype))
        cases.append(case(aten._to_copy.default, fp8.bfloat16(), dtype=dtype))
        cases.append(case(aten._to_copy.default, fp8.to(dtype), dtype=torch.float32))
    cases.append(case(aten._to_copy.default, edges(), dtype=torch.bfloat16))
    cases.append(case(aten._to_copy.default, normal(64).double() / 3, dtype=torch.bfloat16))
    for overload in (aten.clone, aten.detach, aten.alias, aten.lift_fresh_copy, aten.contiguous):
        cases.append(case(overload.default, X))
    cases.append(case(prims.convert_element_type.default, X, torch.bfloat16))
    cases.append(case(aten.copy.default, X, normal(5, dtype=torch.bfloat16)))
    return cases


ALL_BYTES = torch.arange(256).to(torch.uint8)

BITCASTS = [
    case(aten.view.dtype, normal(4, 6), torch.int32),
    case(aten.view.dtype, normal(4, 6, dtype=torch.bfloat16), torch.int16),
    case(aten.view.dtype, integers(4, 6, dtype=torch.int16), torch.bfloat16),
    case(aten.view.dtype, normal(4, 6), torch.uint8),
    case(aten.view.dtype, integers(4, 8, low=0, high=255, dtype=torch.uint8), torch.int32),
    case(aten.view.dtype, positive(4, 6), torch.int64),
    case(aten.view.dtype, integers(4, 6), torch.int32),
    case(aten.view.dtype, booleans(4), torch.uint8),
    case(aten.view.dtype, ALL_BYTES, torch.float8_e4m3fn),
    case(aten.view.dtype, ALL_BYTES, torch.int8),
]

CASES = SHAPES + CREATIONS + _casts() + BITCASTS
