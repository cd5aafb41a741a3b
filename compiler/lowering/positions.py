"""Places in a tensor that integers point at, read by a gather and written by a scatter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from .emitter import Emitter
from .shape import axis_of
from .tensor import Tensor

aten = torch.ops.aten

Combine = Callable[[ir.Value, ir.Value], ir.Value]


def overwrite(old: ir.Value, new: ir.Value) -> ir.Value:
    """The new value replaces the old one."""
    return new


def accumulate(old: ir.Value, new: ir.Value) -> ir.Value:
    """The new value is added."""
    return stablehlo.add(old, new)


@dataclass(frozen=True)
class Positions:
    """Where a gather or scatter works.

    ``vectors`` is int32 [*batch, len(axes)]: one coordinate for each indexed axis of the operand.
    ``batch_start`` is where the batch dimensions stand among the result's.
    """

    vectors: Tensor
    axes: tuple[int, ...]
    batch_start: int

    @property
    def batch(self) -> tuple[int, ...]:
        """Shape of the index."""
        return self.vectors.shape[:-1]

    def result_shape(self, operand: Sequence[int]) -> tuple[int, ...]:
        """Shape of what is read or written."""
        window = [size for axis, size in enumerate(operand) if axis not in self.axes]
        return (*window[: self.batch_start], *self.batch, *window[self.batch_start :])

    def window_axes(self, operand: Sequence[int]) -> list[int]:
        """Dimensions of the result that are not batch dimensions."""
        count = len(self.result_shape(operand))
        return [axis for axis in range(count) if not self.batch_start <= axis < self.batch_start + len(self.batch)]


def positions(e: Emitter, shape: Sequence[int], indices: dict[int, Tensor]) -> Positions:
    """Positions from one integer tensor for each indexed axis, broadcast together; negative ones count from the end.

    The batch dimensions stand where the indexed axes stood, or first when those are not adjacent.
    """
    axes = tuple(sorted(indices))
    batch = torch.broadcast_shapes(*[indices[axis].shape for axis in axes])
    columns = [e.reshape(e.expand(_wrapped(e, indices[axis], shape[axis]), batch), (*batch, 1)) for axis in axes]
    adjacent = axes == tuple(range(axes[0], axes[0] + len(axes)))
    return Positions(e.concatenate(columns, len(batch)), axes, axes[0] if adjacent else 0)


def _wrapped(e: Emitter, index: Tensor, size: int) -> Tensor:
    narrow = e.convert(index, torch.int32)
    if not index.dtype.is_signed:
        return narrow
    below = e.compare("LT", narrow, e.constant(0, torch.int32, narrow.shape))
    return e.select(below, e.add(narrow, e.constant(size, torch.int32, narrow.shape)), narrow)


def gather_at(e: Emitter, x: Tensor, at: Positions) -> Tensor:
    """Read the slices at the positions."""
    if x.dtype is torch.bfloat16 and at.batch_start:
        # XLA:CPU turns such a gather around itself, and then has no dot of bfloat16 that reads it.
        first = gather_at(e, x, replace(at, batch_start=0))
        batch, window = range(len(at.batch)), range(len(at.batch), first.rank)
        before, after = window[: at.batch_start], window[at.batch_start :]
        return e.transpose(first, [*before, *batch, *after])
    sizes = [1 if axis in at.axes else size for axis, size in enumerate(x.shape)]
    count = len(at.batch)
    window = [size for axis, size in enumerate(x.shape) if axis not in at.axes]
    numbers = stablehlo.GatherDimensionNumbers.get(
        list(range(count, count + len(window))), list(at.axes), [], [], list(at.axes), count
    )
    value = stablehlo.gather(x.value, at.vectors.value, numbers, sizes)
    before = range(count, count + at.batch_start)
    after = range(count + at.batch_start, count + len(window))
    return e.transpose(Tensor(value, x.dtype, (*at.batch, *window)), [*before, *range(count), *after])


def scatter_at(e: Emitter, x: Tensor, at: Positions, updates: Tensor, combine: Combine) -> Tensor:
    """Write the slices at the positions; a later duplicate sees an earlier one."""
    numbers = stablehlo.ScatterDimensionNumbers.get(
        at.window_axes(x.shape), list(at.axes), [], [], list(at.axes), len(at.batch)
    )
    result = stablehlo.ScatterOp([x.value.type], [x.value], at.vectors.value, [updates.value], numbers)
    element = e.type(x.dtype, ())
    block = result.regions[0].blocks.append(element, element)
    with ir.InsertionPoint(block):
        stablehlo.return_([combine(block.arguments[0], block.arguments[1])])
    return Tensor(result.results[0], x.dtype, x.shape)


def diagonal_indices(e: Emitter, shape: Sequence[int], offset: int) -> dict[int, Tensor]:
    """Rows and columns of a diagonal of the first two dimensions."""
    position = e.iota(torch.int32, shape, 0)
    shifted = e.add(position, e.constant(abs(offset), torch.int32, position.shape))
    rows, columns = (position, shifted) if offset >= 0 else (shifted, position)
    return {0: rows, 1: columns}


def along(e: Emitter, x: Tensor, dim: int, index: Tensor) -> Positions:
    """One position for each element of the index, which replaces the coordinate along ``dim``."""
    axis = axis_of(x, dim)
    coordinates = {other: e.iota(torch.int32, index.shape, other) for other in range(x.rank) if other != axis}
    coordinates[axis] = e.convert(index, torch.int32)
    columns = [e.reshape(coordinates[other], (*index.shape, 1)) for other in range(x.rank)]
    return Positions(e.concatenate(columns, index.rank), tuple(range(x.rank)), 0)


def as_vectors(e: Emitter, *tensors: Tensor) -> list[Tensor]:
    """0-d tensors as vectors of one element, so that they have a dimension to index."""
    return [tensor if tensor.rank else e.reshape(tensor, (1,)) for tensor in tensors]
