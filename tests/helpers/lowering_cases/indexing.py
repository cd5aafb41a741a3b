"""Cases of compiler/lowering/indexing.py, scattering.py and sorting.py."""

from __future__ import annotations

import torch
from host_programs import Case, case

from .values import booleans, edges, integers, normal, ties

aten = torch.ops.aten

X = normal(6, 5, 4)
ROWS = torch.tensor([1, -1, 3])
COLUMNS = torch.tensor([0, 4, -2])
GRID = torch.tensor([[0, 1], [5, 5], [2, -6]])

READS = [
    case(aten.index.Tensor, X, [ROWS]),
    case(aten.index.Tensor, X, [ROWS, COLUMNS]),
    case(aten.index.Tensor, X, [None, COLUMNS]),
    case(aten.index.Tensor, X, [ROWS, None, torch.tensor([0, 1, 2])]),
    case(aten.index.Tensor, X, [GRID]),
    case(aten.index.Tensor, X, [None, COLUMNS[:, None], torch.tensor([0, 3])]),
    case(aten.index.Tensor, X, [ROWS.int()]),
    case(aten.index.Tensor, X.bfloat16(), [GRID]),
    case(aten.index.Tensor, integers(6, 5, dtype=torch.int16), [ROWS]),
    case(aten.index.Tensor, X, [torch.tensor(2)]),
    case(aten._unsafe_index.Tensor, X, [ROWS]),
    case(aten.diagonal.default, X),
    case(aten.diagonal.default, X, -2, 2, 0),
    case(aten.diagonal_copy.default, X, 1, 0, -1),
    case(aten.index_select.default, X, 1, torch.tensor([4, 0])),
    case(aten.index_select.default, X, 0, torch.tensor(2)),
    case(aten.embedding.default, normal(6, 5), GRID % 6),
    case(aten.gather.default, X, 1, integers(6, 3, 4, low=0, high=5)),
    case(aten.gather.default, X, -1, integers(2, 3, 7, low=0, high=4)),
    case(aten.gather.default, normal(5), 0, torch.tensor(3)),
]


def _writes() -> list[Case]:
    cases = []
    for dtype in (torch.float32, torch.bfloat16, torch.int16):
        root, update = X.to(dtype), normal(3, 5, 4, seed=1).to(dtype)
        cases.append(case(aten.index_put.default, root, [ROWS], update))
        cases.append(case(aten.index_put.default, root, [ROWS], update, True))
        cases.append(case(aten.index_put.default, root, [ROWS, COLUMNS], update[0, 0]))
        cases.append(case(aten.index_put.default, root, [None, COLUMNS[:2]], update[:1, :2]))
        cases.append(case(aten.index_put.default, root, [ROWS, None, torch.tensor([0, 1, 2])], update[:, :, 0]))
        cases.append(case(aten.index_copy.default, root, 0, ROWS.abs(), update))
        cases.append(case(aten.index_add.default, root, 0, ROWS.abs(), update))
        cases.append(case(aten.scatter.src, root, 1, integers(6, 1, 4, low=0, high=5), root + 1))
        cases.append(case(aten.scatter.value, root, 1, integers(6, 3, 4, low=0, high=5), 2))
        cases.append(case(aten.scatter_add.default, root, 1, integers(6, 3, 4, low=0, high=5), root + 1))
        cases.append(case(aten.index_fill.int_Scalar, root, 1, COLUMNS.abs(), 3))
    duplicates = torch.tensor([2, 2, 2])
    cases.append(case(aten.index_put.default, X, [duplicates], normal(3, 5, 4, seed=2), True))
    cases.append(case(aten._unsafe_index_put.default, X, [ROWS], normal(3, 5, 4, seed=2)))
    cases.append(case(aten.index_put.default, X, [booleans(6, 5, 4)], torch.tensor(7.0)))
    cases.append(case(aten.index_put.default, X, [booleans(6)], normal(5, 4, seed=1)))
    cases.append(case(aten.index_put.default, X, [booleans(6, 5)], normal(1, 4, seed=1), True))
    cases.append(case(aten.index_add.default, X, 1, torch.tensor([0, 3]), normal(6, 2, 4), alpha=2))
    cases.append(case(aten.index_fill.int_Tensor, X, 1, torch.tensor([0, 3]), torch.tensor(2.0)))
    cases.append(case(aten.index_copy.default, normal(5), 0, torch.tensor(2), torch.tensor(9.0)))
    cases += _reductions()
    cases.append(case(aten.scatter.value_reduce, X, 1, integers(6, 2, 4, low=0, high=5), 2.0, reduce="multiply"))
    cases.append(case(aten.diagonal_scatter.default, normal(4, 5), normal(3, seed=1), -1))
    cases.append(case(aten.diagonal_scatter.default, normal(3, 4, 5), normal(4, 3, seed=1), 1, 0, 2))
    cases.append(case(aten.put.default, X, torch.tensor([[0, -1], [7, 8]]), normal(2, 2, seed=1)))
    cases.append(case(aten.put.default, X, torch.tensor([0, 0, 119]), normal(3, seed=1), True))
    return cases


def _reductions() -> list[Case]:
    cases = []
    index, rows = integers(6, 3, 4, low=0, high=5), torch.tensor([0, 3, 0])
    for reduce in ("sum", "prod", "mean", "amax", "amin"):
        for keeps in (True, False):
            for target, source in ((X, normal(6, 3, 4, seed=3)), (integers(6, 5, 4), integers(6, 3, 4, seed=3))):
                cases.append(case(aten.scatter_reduce.two, target, 1, index, source, reduce, include_self=keeps))
                if reduce != "sum":
                    cases.append(case(aten.index_reduce.default, target, 1, rows, source, reduce, include_self=keeps))
    cases.append(case(aten.scatter.reduce, X, 1, index, normal(6, 3, 4, seed=3), reduce="add"))
    return cases


def _orders() -> list[Case]:
    cases = []
    with_nan = torch.cat([edges(), ties(20)])
    for operand in (ties(4, 30), ties(4, 30, dtype=torch.bfloat16), ties(4, 30, dtype=torch.int32), with_nan):
        for descending in (False, True):
            cases.append(case(aten.sort.stable, operand, stable=True, dim=-1, descending=descending))
            cases.append(case(aten.argsort.stable, operand, stable=True, dim=0, descending=descending))
    distinct = torch.randperm(60, generator=torch.Generator().manual_seed(0)).reshape(3, 20).float()
    cases.append(case(aten.sort.default, distinct, -1, True))
    cases.append(case(aten.argsort.default, distinct, 0))
    cases.append(case(aten.topk.default, distinct, 5))
    cases.append(case(aten.topk.default, distinct, 2, 0, False))
    cases.append(case(aten.topk.default, distinct.bfloat16(), 20))
    cases.append(case(aten.topk.default, distinct.int(), 3))
    return cases


ORDERS = _orders()

TAKEN = [
    case(aten.take.default, X, torch.tensor([[0, 5], [-1, 119]])),
    case(aten.take.default, X, torch.zeros(0, dtype=torch.int64)),
]

CASES = READS + TAKEN + _writes() + ORDERS
