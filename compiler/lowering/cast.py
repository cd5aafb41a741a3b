"""Changes of element type: by value and by bits."""

from __future__ import annotations

from typing import Any

import torch

from ...runtime.artifacts import TensorType
from .emitter import Emitter, Operand
from .registry import lowers
from .tensor import Tensor

aten = torch.ops.aten


@lowers(
    aten._to_copy.default,
    aten.clone.default,
    aten.detach.default,
    aten.detach_copy.default,
    aten.alias.default,
    aten.lift_fresh_copy.default,
    aten.contiguous.default,
    torch.ops.prims.convert_element_type.default,
)
def to_copy(e: Emitter, result: TensorType, x: Operand, dtype: Any = None) -> Tensor:
    """The same values in the result's type; values beyond the range of an fp8 type saturate, as in torch 2.13.

    Tracers of batched functions copy plain numbers too.
    """
    return e.operand(x, result.dtype, result.shape)


@lowers(aten.copy.default)
def copy(e: Emitter, result: TensorType, target: Tensor, source: Tensor) -> Tensor:
    """The source in the target's type and shape."""
    return e.operand(source, result.dtype, result.shape)


@lowers(aten.view.dtype)
def view_dtype(e: Emitter, result: TensorType, x: Tensor, dtype: torch.dtype) -> Tensor:
    """The same bytes under another type; a change of element size is taken from the last dimension."""
    source, target = x.dtype.itemsize, result.dtype.itemsize
    if torch.bool in (x.dtype, result.dtype):
        return e.convert(x, result.dtype) if x.dtype is torch.bool else e.convert(x, torch.bool)
    if source == target:
        return e.bitcast(x, result.dtype, result.shape)
    if source > target:
        split = e.bitcast(x, result.dtype, (*x.shape, source // target))
        return e.reshape(split, result.shape)
    grouped = e.reshape(x, (*result.shape, target // source))
    return e.bitcast(grouped, result.dtype, result.shape)
