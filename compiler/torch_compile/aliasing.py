"""Which inputs of a graph share memory, and where.

A graph that updates an input is compiled for the overlaps that its inputs had at that moment. Dynamo
does not guard where in a shared storage the views lie, so a call with other overlaps would reuse a
program that updates the wrong elements.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from torch import Tensor

from ...errors import InputError


def shared_memory(inputs: Sequence[Any]) -> Hashable:
    """Which inputs share a storage, and where in it each of them lies."""
    shared = [group for group in _by_storage(inputs) if len(group) > 1]
    return tuple(tuple((position, *_place(inputs[position])) for position in group) for group in shared)


def refuse_offsets(compiled: Callable[..., Any], example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A compiled graph that refuses inputs which share no memory but begin within theirs.

    Where some inputs share memory, AOTAutograd makes results that are views of the others from the beginning of their
    memory.
    """
    alone = [position for group in _by_storage(example_inputs) if len(group) == 1 for position in group]

    def call(*inputs: Any) -> Any:
        within = [position for position in alone if inputs[position].storage_offset()]
        if within:
            raise InputError(
                f"graph inputs {within} are views that do not begin where their memory does, while other inputs share "
                "memory, one is updated and a view of one is returned: return a clone, or pass clones"
            )
        return compiled(*inputs)

    return call


def _by_storage(inputs: Sequence[Any]) -> list[list[int]]:
    groups: dict[int, list[int]] = {}
    for position, tensor in enumerate(inputs):
        if isinstance(tensor, Tensor):
            groups.setdefault(tensor.untyped_storage()._cdata, []).append(position)
    return list(groups.values())


def _place(tensor: Tensor) -> tuple[Hashable, ...]:
    base = tensor._base
    base_layout = None if base is None else (base.storage_offset(), base.shape, base.stride())
    return tensor.storage_offset(), tensor.shape, tensor.stride(), base_layout
