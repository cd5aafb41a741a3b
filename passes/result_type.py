"""What an operator returns, as a tensor without data: dtype, shape and strides.

PyTorch answers this with a kernel for the meta device. For most pointwise operators that kernel is written in Python
and takes a hundred times as long as the operators that only change a shape. Their answer is simple where the operands
are contiguous: the broadcast shape, and a dtype that depends on the operands' dtypes alone, which is asked for once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload

_DTYPES: dict[Any, torch.dtype] = {}
"""The result's dtype by pointwise operator and kinds of operands."""


def as_type(tensor: Tensor) -> Tensor:
    """A tensor on the meta device with the dtype, shape and strides of ``tensor``."""
    if type(tensor) is Tensor and tensor.is_meta:
        return tensor
    return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta")


def result_type(target: OpOverload, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """What ``target`` returns when its tensor arguments are these ones, on the meta device."""
    if not _is_pointwise(target):
        return target(*args, **({**kwargs, "device": "meta"} if _takes_device(target) else kwargs))
    operands = [one for one in (*args, *kwargs.values()) if isinstance(one, Tensor)]
    plain = torch.memory_format not in map(type, kwargs.values())
    if not (plain and operands and all(one.is_contiguous() for one in operands)):
        return target(*args, **kwargs)
    key = (target, *map(_kind, args), *kwargs, *map(_kind, kwargs.values()))
    if key not in _DTYPES:
        _DTYPES[key] = target(*args, **kwargs).dtype
    return torch.empty(_broadcast(operands), dtype=_DTYPES[key], device="meta")


def _kind(argument: Any) -> Any:
    """What of an argument decides the dtype of a pointwise result."""
    if isinstance(argument, Tensor):
        return argument.dtype, argument.dim() == 0
    return type(argument) if isinstance(argument, (bool, int, float, complex)) else argument


def _broadcast(operands: Sequence[Tensor]) -> Sequence[int]:
    shapes = [one.shape for one in operands]
    same = all(shape == shapes[0] for shape in shapes)
    return shapes[0] if same else torch.broadcast_shapes(*shapes)


@cache
def _is_pointwise(target: OpOverload) -> bool:
    return torch.Tag.pointwise in target.tags and len(target._schema.returns) == 1


@cache
def _takes_device(target: OpOverload) -> bool:
    return any(argument.name == "device" for argument in target._schema.arguments)
