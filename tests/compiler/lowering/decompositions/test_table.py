"""Every decomposition of this package gives what eager PyTorch gives."""

from __future__ import annotations

import math

import pytest
import torch
from deepinfer_neuron.compiler.lowering.decompositions.table import OWN_DECOMPOSITIONS
from host_programs import Case, Host, case
from lowering_cases.values import booleans, integers, normal, positive

aten = torch.ops.aten


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def _adaptive_pools() -> list[Case]:
    cases = []
    for count, space in ((2, (7, 5)), (3, (6, 5, 4))):
        x = normal(2, 3, *space)
        mean, maximum = getattr(aten, f"_adaptive_avg_pool{count}d"), getattr(aten, f"adaptive_max_pool{count}d")
        for size in ([1] * count, [3] * count, list(space), [8] * count):
            cases.append(case(mean.default, x, size))
            cases.append(case(maximum.default, x, size))
            gradient = normal(2, 3, *size, seed=1)
            cases.append(case(getattr(aten, f"_adaptive_avg_pool{count}d_backward").default, gradient, x))
            indices = maximum.default(x, size)[1]
            cases.append(case(getattr(aten, f"adaptive_max_pool{count}d_backward").default, gradient, x, indices))
    x = normal(2, 3, 6, 5, 4)
    values, indices = aten.max_pool3d_with_indices.default(x, [2, 2, 2])
    window = ([2, 2, 2], [2, 2, 2], [0, 0, 0], [1, 1, 1], False)
    backward = aten.max_pool3d_with_indices_backward.default
    cases.append(case(backward, normal(*values.shape, seed=1), x, *window, indices))
    return cases


def _products() -> list[Case]:
    rows, columns = normal(12, 16, dtype=torch.bfloat16), normal(16, 16, dtype=torch.bfloat16, seed=1)
    experts = normal(3, 16, 8, dtype=torch.bfloat16, seed=2)
    ends, whole = (torch.tensor([4, 4, last], dtype=torch.int32) for last in (12, 16))
    weight = integers(8, 32, low=-128, high=128, dtype=torch.int8)
    few = torch.tensor([1, 1, 2], dtype=torch.int32)
    cases = [
        case(aten._grouped_mm.default, rows, experts, ends),
        case(aten._grouped_mm.default, rows[:2], experts, few),
        case(aten._grouped_mm.default, columns, normal(16, 16, dtype=torch.bfloat16), whole),
        case(aten._grouped_mm.default, normal(3, 8, 16, dtype=torch.bfloat16), columns, whole),
        case(aten._weight_int8pack_mm.default, normal(4, 32, dtype=torch.bfloat16), weight, positive(8).bfloat16()),
        case(aten.addbmm.default, normal(4, 5), normal(3, 4, 6), normal(3, 6, 5, seed=1), beta=0.5, alpha=2),
        case(aten.addbmm.default, integers(4, 5), integers(3, 4, 6), integers(3, 6, 5), beta=0.6, alpha=1.2),
        case(aten._trilinear.default, normal(4, 3), normal(2, 3, 5), normal(4, 5), [1, 3], [0], [1, 2], [2, 3]),
    ]
    for p in (0.0, 1.0, 2.0, 3.0, math.inf):
        cases.append(case(aten._cdist_forward.default, normal(2, 4, 6), normal(2, 5, 6, seed=1), p, None))
        cases.append(case(aten._pdist_forward.default, normal(5, 6), p))
    return cases


def _solutions() -> list[Case]:
    solve = aten.linalg_solve_triangular.default
    cases = []
    for size in (0, 1, 2, 7):
        matrix = normal(2, 1, size, size) + 4 * torch.eye(size)
        right = normal(3, size, 5, seed=1)
        for upper in (False, True):
            cases.append(case(solve, matrix, right, upper=upper))
            cases.append(case(solve, matrix, right.mT, upper=upper, left=False))
            cases.append(case(solve, 0.3 * normal(size, size), right, upper=upper, unitriangular=True))
    return cases


def _searches() -> list[Case]:
    boundaries = torch.tensor([-2.0, -1.0, -1.0, 0.5, 3.0])
    values = torch.tensor([[-3.0, -1.0, 0.0, 0.5], [3.0, 9.0, math.inf, math.nan]])
    rows = normal(2, 9).sort(-1)[0]
    cases = []
    for right in (False, True):
        cases.append(case(aten.bucketize.Tensor, values, boundaries, right=right, out_int32=right))
        cases.append(case(aten.searchsorted.Tensor, rows, normal(2, 6, seed=1), right=right))
        cases.append(case(aten.searchsorted.Tensor, boundaries, values, side="right" if right else "left"))
        cases.append(case(aten.searchsorted.Scalar, boundaries, -1.0, right=right))
    cases.append(case(aten.searchsorted.Tensor, normal(9), normal(6, seed=1), sorter=normal(9).argsort()))
    cases.append(case(aten.searchsorted.Tensor, torch.zeros(0), values))
    x, mask = normal(4, 5), booleans(4, 5)
    cases.append(case(aten.masked_scatter.default, x, mask, normal(4, 5, seed=1)))
    cases.append(case(aten.masked_scatter.default, x, booleans(5), normal(30, seed=1)))
    cases.append(case(aten.masked_scatter_backward.default, x, mask, [4, 6]))
    cases.append(case(aten.histc.default, x, 6, -2, 2))
    cases.append(case(aten.histc.default, x, 6))
    cases.append(case(aten.histc.default, integers(40, low=0, high=8).float(), 8, 0, 7))
    cases.append(case(aten.nonzero_static.default, mask, size=7))
    cases.append(case(aten.nonzero_static.default, torch.tensor([[0, 3], [4, 0]]), size=5, fill_value=-9))
    return cases


def _ranks() -> list[Case]:
    distinct = torch.randperm(24, generator=torch.Generator().manual_seed(0)).reshape(4, 6)
    with_nan = distinct.float()
    with_nan[1, 2] = with_nan[3] = math.nan
    cases = []
    for operand in (distinct, distinct.float(), distinct.bfloat16(), torch.tensor(3.0)):
        cases.append(case(aten.kthvalue.default, operand, 1 if not operand.dim() else 3, -1, True))
        for overload in (aten.median.dim, aten.nanmedian.dim):
            cases.append(case(overload, operand, -1))
        cases += [case(overload, operand) for overload in (aten.median.default, aten.nanmedian.default)]
    cases += [case(overload, with_nan) for overload in (aten.median.default, aten.nanmedian.default)]
    cases += [case(aten.median.dim, with_nan[:2], 1), case(aten.nanmedian.dim, with_nan[:3], 1)]
    cases.append(case(aten.mode.default, torch.tensor([[1, 2, 2, 3], [4, 3, 4, 3]]), -1))
    cases.append(case(aten.mode.default, torch.tensor([[1, 2], [1, 3], [0, 3]]), 0, True))
    return cases


CASES = [*_adaptive_pools(), *_products(), *_solutions(), *_searches(), *_ranks()]


def test_they_give_what_eager_gives(host: Host) -> None:
    for one, actual in zip(CASES, host.results(CASES, "fast"), strict=True):
        for got, expected in zip(actual, one.eager(), strict=True):
            tolerance = {"rtol": 2e-2, "atol": 2e-2} if expected.dtype is torch.bfloat16 else {}
            torch.testing.assert_close(
                got, expected, equal_nan=True, msg=lambda text, one=one: f"{one}: {text}", **tolerance
            )


def test_every_decomposition_has_a_case() -> None:
    assert set(OWN_DECOMPOSITIONS) == {one.overload for one in CASES} | {aten._scaled_mm.default}


def test_float8_products_are_scaled(host: Host) -> None:
    left, right = (normal(16, 32, seed=seed).to(torch.float8_e4m3fn) for seed in (0, 1))
    one = case(aten._scaled_mm.default, left, right.t(), torch.tensor(0.5), torch.tensor(2.0), out_dtype=torch.bfloat16)
    ((actual,),) = host.results([one], "fast")
    torch.testing.assert_close(actual.float(), left.float() @ right.float().T, rtol=2e-2, atol=2e-2)
