"""Solutions of systems of linear equations."""

from __future__ import annotations

import torch
from torch import Tensor


def triangular_solution(
    matrix: Tensor, right: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False
) -> Tensor:
    """X [..., N, K] with ``matrix`` [..., N, N] @ X = ``right``, or X [..., K, N] with X @ ``matrix`` = ``right``.

    Substitution by halves: as many products as rows, most of them small. Only the triangle is read, and of a unit
    triangle not its diagonal.
    """
    if not left:
        return triangular_solution(matrix.mT, right.mT, upper=not upper, unitriangular=unitriangular).mT
    size = matrix.shape[-1]
    if size <= 1:
        batch = torch.broadcast_shapes(matrix.shape[:-2], right.shape[:-2])
        return right.expand(*batch, *right.shape[-2:]) if unitriangular or not size else right / matrix
    parts = [slice(0, size // 2), slice(size // 2, size)]
    first, then = reversed(parts) if upper else parts

    def solve(part: slice, values: Tensor) -> Tensor:
        return triangular_solution(matrix[..., part, part], values, upper=upper, unitriangular=unitriangular)

    solved = solve(first, right[..., first, :])
    rest = solve(then, right[..., then, :] - matrix[..., then, first] @ solved)
    return torch.cat([rest, solved] if upper else [solved, rest], -2)


DECOMPOSITIONS = {torch.ops.aten.linalg_solve_triangular.default: triangular_solution}
