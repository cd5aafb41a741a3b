"""Which inputs of a graph share memory, and where.

A graph that updates an input is compiled for the overlaps that its inputs had at that moment. Dynamo
does not guard where in a shared storage the views lie, so a call with other overlaps would reuse a
program that updates the wrong elements.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from torch import Tensor


def shared_memory(inputs: Sequence[Any]) -> Hashable:
    """Which inputs share a storage, and where in it each of them lies."""
    groups: dict[int, list[int]] = {}
    for position, tensor in enumerate(inputs):
        if isinstance(tensor, Tensor):
            groups.setdefault(tensor.untyped_storage()._cdata, []).append(position)
    shared = [group for group in groups.values() if len(group) > 1]
    return tuple(tuple((position, *_place(inputs[position])) for position in group) for group in shared)


def _place(tensor: Tensor) -> tuple[Hashable, ...]:
    base = tensor._base
    base_layout = None if base is None else (base.storage_offset(), base.shape, base.stride())
    return tensor.storage_offset(), tensor.shape, tensor.stride(), base_layout
