"""Reading at places that integers, or a mask, point at; ``index_put`` beside ``index``."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from jaxlib.mlir.dialects import stablehlo

from ...errors import LoweringError
from ...runtime.artifacts import TensorType
from .comparison import where
from .emitter import Emitter
from .positions import (
    along,
    as_vectors,
    diagonal_indices,
    gather_at,
    overwrite,
    positions,
    scatter_at,
)
from .registry import lowers
from .shape import axis_of
from .tensor import Tensor

aten = torch.ops.aten


def _integer_indices(indices: Sequence[Tensor | None]) -> dict[int, Tensor]:
    chosen = {axis: index for axis, index in enumerate(indices) if index is not None}
    if any(index.dtype in (torch.bool, torch.uint8) for index in chosen.values()):
        raise LoweringError(
            "indexing with a boolean mask has a shape that depends on data: use torch.where, or integer positions"
        )
    return chosen


@lowers(aten.index.Tensor, aten._unsafe_index.Tensor)
def index(e: Emitter, result: TensorType, x: Tensor, indices: Sequence[Tensor | None]) -> Tensor:
    """x[i, :, j, ...] with integer tensors."""
    return gather_at(e, x, positions(e, x.shape, _integer_indices(indices)))


@lowers(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(
    e: Emitter,
    result: TensorType,
    x: Tensor,
    indices: Sequence[Tensor | None],
    values: Tensor,
    accumulate: bool = False,
) -> Tensor:
    """x with x[i, :, j, ...] replaced, or increased; a boolean mask selects where one value a row is given."""
    mask = indices[0]
    if len(indices) == 1 and mask is not None and mask.dtype is torch.bool:
        return _masked_put(e, result, x, mask, values, accumulate)
    at = positions(e, x.shape, _integer_indices(indices))
    updates = e.operand(values, x.dtype, at.result_shape(x.shape))
    return scatter_at(e, x, at, updates, stablehlo.add if accumulate else overwrite)


def _masked_put(e: Emitter, result: TensorType, x: Tensor, mask: Tensor, values: Tensor, accumulate: bool) -> Tensor:
    window = x.shape[mask.rank :]
    if values.rank > len(window) and values.shape[: values.rank - len(window)] != (1,):
        raise LoweringError(f"assigning {values.shape[0]} rows through a boolean mask depends on data: use torch.where")
    row = e.reshape(values, values.shape[max(values.rank - len(window), 0) :])
    spread = e.broadcast(mask, x.shape, range(mask.rank))
    value = e.operand(row, x.dtype, x.shape)
    return where(e, result, spread, e.add(x, value) if accumulate else value, x)


@lowers(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(e: Emitter, result: TensorType, x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Elements whose positions along two dimensions differ by the offset, as a new last dimension."""
    first, second = axis_of(x, dim1), axis_of(x, dim2)
    others = [axis for axis in range(x.rank) if axis not in (first, second)]
    square = e.transpose(x, [first, second, *others])
    read = gather_at(e, square, positions(e, square.shape, diagonal_indices(e, result.shape[-1:], offset)))
    return e.transpose(read, [*range(1, read.rank), 0])


@lowers(aten.index_select.default)
def index_select(e: Emitter, result: TensorType, x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Slices of one dimension, in the index's order."""
    if not x.rank:
        return x
    axis = axis_of(x, dim)
    return gather_at(e, x, positions(e, x.shape, {axis: e.reshape(index, result.shape[axis : axis + 1])}))


@lowers(aten.embedding.default)
def embedding(
    e: Emitter,
    result: TensorType,
    weight: Tensor,
    indices: Tensor,
    padding_idx: int = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of a table."""
    return gather_at(e, weight, positions(e, weight.shape, {0: indices}))


@lowers(aten.gather.default)
def gather(e: Emitter, result: TensorType, x: Tensor, dim: int, index: Tensor, sparse_grad: bool = False) -> Tensor:
    """x[i, index[i, j], ...] along one dimension."""
    source, where_to = as_vectors(e, x, index)
    return e.reshape(gather_at(e, source, along(e, source, dim, where_to)), result.shape)


@lowers(aten.take.default)
def take(e: Emitter, result: TensorType, x: Tensor, index: Tensor) -> Tensor:
    """Elements of the flattened tensor."""
    flat = e.reshape(x, (math.prod(x.shape),))
    return gather_at(e, flat, positions(e, flat.shape, {0: index}))
