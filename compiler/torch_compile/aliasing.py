"""One program for each way in which a graph's inputs share memory.

A graph that updates an input is compiled for the overlaps that its inputs had at that moment. Dynamo
does not guard where in a shared storage the views lie, so a call with other overlaps would reuse a
program that updates the wrong elements.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from torch import Tensor

Compiled = Callable[..., Any]


class CompiledPerAliasing:
    """Calls the program for the overlaps of the given inputs, and compiles it when they are new.

    Args:
        compile_inputs: makes a program for real inputs.
        example_inputs: the inputs that ``first`` was compiled for.
    """

    def __init__(self, compile_inputs: Callable[[Sequence[Any]], Compiled], first: Compiled, example_inputs: Sequence):
        self._compile = compile_inputs
        self._programs = {shared_memory(example_inputs): first}

    def __call__(self, *inputs: Any) -> Any:
        """Run the program for ``inputs``."""
        key = shared_memory(inputs)
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = self._compile(inputs)
        return program(*inputs)


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
