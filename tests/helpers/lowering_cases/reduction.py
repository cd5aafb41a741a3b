"""Cases of compiler/lowering/reduction.py and normalization.py."""

from __future__ import annotations

import math

import torch
from host_programs import Case, case

from .values import FLOATS, booleans, edges, integers, normal, positive, ties

aten = torch.ops.aten


def _sums() -> list[Case]:
    cases = []
    for overload in (aten.sum.dim_IntList, aten.mean.dim):
        for length in (1, 3, 4, 7, 8, 20, 33, 64, 257, 600, 5120):
            cases.append(case(overload, normal(3, length), [-1]))
        for shape, dims in (((5, 9, 40), [1]), ((20, 37), [0]), ((5, 9, 3), [1]), ((4, 6, 7), [0, 2]), ((4, 6, 7), [])):
            cases.append(case(overload, normal(*shape), dims))
            cases.append(case(overload, normal(*shape), dims, True))
        cases.append(case(overload, normal(4, 300, dtype=torch.bfloat16), [-1]))
        cases.append(case(overload, normal(4, 20, 40, dtype=torch.bfloat16), [1]))
        cases.append(case(overload, normal(4, 30).double(), [-1]))
    cases.append(case(aten.sum.default, normal(7, 9)))
    cases.append(case(aten.mean.default, normal(7, 9)))
    cases.append(case(aten.sum.default, normal()))
    cases.append(case(aten.sum.dim_IntList, integers(4, 5, dtype=torch.int32), [0]))
    cases.append(case(aten.sum.dim_IntList, booleans(4, 5), [1]))
    cases.append(case(aten.sum.dim_IntList, normal(4, 0), [1]))
    cases.append(case(aten.sum.dim_IntList, normal(4, 5, dtype=torch.bfloat16), [1], dtype=torch.float32))
    cases.append(case(aten.mean.dim, integers(4, 5), [1], dtype=torch.float32))
    cases.append(case(aten.prod.dim_int, positive(4, 5), 1))
    cases.append(case(aten.prod.dim_int, integers(4, 5, low=1, high=5), 1, True))
    cases.append(case(aten.prod.default, integers(4, low=1, high=5)))
    cases.append(case(aten.cumsum.default, integers(4, 9), 1))
    cases.append(case(aten.cumsum.default, booleans(4, 9), 0))
    cases.append(case(aten.cumsum.default, normal(4, 300), 1))
    cases.append(case(aten.cumsum.default, normal(4, 9, dtype=torch.bfloat16), -1))
    return cases


def _extremes() -> list[Case]:
    cases = []
    with_nan = ties(4, 9)
    with_nan[1, 3] = with_nan[1, 5] = with_nan[2, 0] = float("nan")
    operands = [ties(4, 9), ties(4, 9, dtype=torch.bfloat16), ties(4, 9, dtype=torch.int32), with_nan, -with_nan]
    for operand in operands:
        cases += [case(overload, operand, [1]) for overload in (aten.amax.default, aten.amin.default)]
        cases += [case(overload, operand, 0) for overload in (aten.max.dim, aten.min.dim)]
        cases += [case(overload, operand, 1, True) for overload in (aten.max.dim, aten.min.dim)]
        cases += [case(overload, operand, -1) for overload in (aten.argmax.default, aten.argmin.default)]
        cases += [case(overload, operand) for overload in (aten.argmax.default, aten.max.default, aten.min.default)]
    for operand in (booleans(4, 9), edges(), integers(4, 3, low=0, high=2, dtype=torch.uint8)):
        cases += [case(overload, operand) for overload in (aten.any.default, aten.all.default)]
        cases += [case(overload, operand, 0) for overload in (aten.any.dim, aten.all.dim)]
        cases += [case(overload, operand, [0], True) for overload in (aten.any.dims, aten.all.dims)]
    for operand in (ties(4, 9), edges(), integers(4, 9), booleans(4, 9), normal(3, 0), normal(dtype=torch.bfloat16)):
        cases += [case(overload, operand, -1) for overload in (aten.cummax.default, aten.cummin.default)]
    cases.append(case(aten.cummax.default, ties(4, 3, 2), 0))
    cases.append(case(aten.logcumsumexp.default, normal(4, 9), 1))
    cases.append(case(aten.logcumsumexp.default, torch.tensor([-math.inf, -math.inf, 1.0, math.inf, 2.0]), 0))
    cases.append(case(aten.amax.default, normal(3, 4, 5), [0, 2], True))
    cases.append(case(aten.amax.default, torch.full((2, 3), float("-inf")), [1]))
    return cases


def _distributions() -> list[Case]:
    cases = []
    for overload in (aten._softmax.default, aten._log_softmax.default):
        for dtype in FLOATS:
            cases.append(case(overload, normal(5, 77, dtype=dtype), -1, False))
            cases.append(case(overload, normal(5, 7, 3, dtype=dtype), 1, False))
        cases.append(case(overload, torch.tensor([[1.0, float("-inf"), 2.0]]), 1, False))
    cases.append(case(aten._safe_softmax.default, torch.tensor([[1.0, float("-inf"), 2.0]]), 1))
    return cases


def _norms() -> list[Case]:
    cases = []
    for dtype in FLOATS:
        x, weight, bias = normal(5, 96, dtype=dtype), normal(96, dtype=dtype, seed=1), normal(96, dtype=dtype, seed=2)
        cases.append(case(aten.native_layer_norm.default, x, [96], weight, bias, 1e-5))
        cases.append(case(aten._fused_rms_norm.default, x, [96], weight, 1e-6))
        mean, variance = normal(96, dtype=dtype, seed=3), normal(96, dtype=dtype, seed=4).abs() + 0.5
        statistics = mean, variance, 0.1, 1e-5
        cases.append(case(aten._native_batch_norm_legit_no_training.default, x, weight, bias, *statistics))
        cases.append(case(aten._safe_softmax.default, x.masked_fill(x > 0, float("-inf")), -1))
        cases.append(case(aten.var.correction, x, [1], correction=1))
        cases.append(case(aten.var_mean.correction, x, [1], correction=0, keepdim=True))
        cases.append(case(aten.std.correction, x, [1]))
        cases += [case(aten.linalg_vector_norm.default, x, order, [1]) for order in (1, 2, 0, float("inf"), 3)]
        features = normal(3, 8, 5, 4, dtype=dtype)
        statistics = normal(8, seed=3), positive(8, seed=4)
        affine = normal(8, dtype=dtype, seed=1), normal(8, dtype=dtype, seed=2)
        norm = aten._native_batch_norm_legit_no_training.default
        cases.append(case(norm, features, *affine, *(one.to(dtype) for one in statistics), 0.1, 1e-5))
    cases.append(case(norm, normal(3, 8), None, None, *statistics, 0.1, 1e-5))
    cases.append(case(aten.native_layer_norm.default, normal(5, 96), [96], None, None, 1e-5))
    cases.append(case(aten._fused_rms_norm.default, normal(5, 96), [96], None, None))
    return cases


CASES = _sums() + _extremes() + _distributions() + _norms()
