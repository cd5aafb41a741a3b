"""Orders. Equal values keep their order: the lower index comes first, in both directions."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ...runtime.artifacts import TensorType
from .emitter import Emitter
from .ranking import greater, order_by_rank
from .registry import lowers
from .shape import axis_of
from .tensor import Tensor

aten = torch.ops.aten


def order(e: Emitter, x: Tensor, axis: int, descending: bool, count: int) -> tuple[Tensor, Tensor]:
    """The first ``count`` values in order and their int32 positions; NaN counts as larger than everything."""
    if not e.options.sort:
        return order_by_rank(e, x, axis, descending, count)
    values, positions = _sort_with_index(e, x, axis, descending)
    return e.slice_axis(values, axis, 0, count), e.slice_axis(positions, axis, 0, count)


def _sort_with_index(e: Emitter, x: Tensor, axis: int, descending: bool) -> tuple[Tensor, Tensor]:
    position = e.iota(torch.int32, x.shape, axis)
    result = stablehlo.SortOp(
        [x.value.type, position.value.type], [x.value, position.value], dimension=axis, is_stable=True
    )
    element, index = e.type(x.dtype, ()), e.type(torch.int32, ())
    block = result.regions[0].blocks.append(element, element, index, index)
    with ir.InsertionPoint(block):
        first, second = (Tensor(value, x.dtype, ()) for value in list(block.arguments)[:2])
        before = greater(e, first, second) if descending else greater(e, second, first)
        stablehlo.return_([before.value])
    return Tensor(result.results[0], x.dtype, x.shape), Tensor(result.results[1], torch.int32, x.shape)


def _ordered(
    e: Emitter, result: Sequence[TensorType], x: Tensor, dim: int, descending: bool, count: int | None = None
) -> tuple[Tensor, Tensor]:
    source = x if x.rank else e.reshape(x, (1,))
    axis = axis_of(source, dim)
    values, positions = order(e, source, axis, descending, source.shape[axis] if count is None else count)
    return e.reshape(values, result[0].shape), e.reshape(e.convert(positions, result[1].dtype), result[1].shape)


@lowers(aten.sort.default)
def sort(
    e: Emitter, result: Sequence[TensorType], x: Tensor, dim: int = -1, descending: bool = False
) -> tuple[Tensor, Tensor]:
    """Sorted values and their positions; always stable."""
    return _ordered(e, result, x, dim, descending)


@lowers(aten.sort.stable)
def sort_stable(
    e: Emitter,
    result: Sequence[TensorType],
    x: Tensor,
    stable: bool | None = None,
    dim: int = -1,
    descending: bool = False,
) -> tuple[Tensor, Tensor]:
    """Sorted values and their positions."""
    return _ordered(e, result, x, dim, descending)


@lowers(aten.argsort.default)
def argsort(e: Emitter, result: TensorType, x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """Positions in sorted order; always stable."""
    return _ordered(e, (result, result), x, dim, descending)[1]


@lowers(aten.argsort.stable)
def argsort_stable(
    e: Emitter, result: TensorType, x: Tensor, stable: bool, dim: int = -1, descending: bool = False
) -> Tensor:
    """Positions in sorted order."""
    return _ordered(e, (result, result), x, dim, descending)[1]


@lowers(aten.topk.default)
def topk(
    e: Emitter,
    result: Sequence[TensorType],
    x: Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> tuple[Tensor, Tensor]:
    """The k largest or smallest, best first; among equals the lower index first."""
    return _ordered(e, result, x, dim, largest, k)
