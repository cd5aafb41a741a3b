"""Rules about the memory of a core. What the compiler adds of its own is not known here."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from ..passes.target_facts import facts_of
from .aliases import aliases_of
from .module_view import ModuleView, bytes_of

LARGEST_OUTPUT = 4 << 30

Hits = Iterator[tuple[Any, str]]


def large_outputs(view: ModuleView, target: str) -> Hits:
    """Outputs of more than 4 GiB."""
    for index, output in enumerate(_returned(view)):
        if bytes_of(output) > LARGEST_OUTPUT:
            yield view.main, f"output {index} has {_gib(bytes_of(output))}, of at most {_gib(LARGEST_OUTPUT)}"


def inputs_and_outputs(view: ModuleView, target: str) -> Hits:
    """Tensors that the host gives and gets, which have to be in memory together."""
    yield from _exceeds(view, target, boundary_bytes(view), "inputs and outputs")


def peak(view: ModuleView, target: str) -> Hits:
    """Inputs, outputs and the values between them at the step when most of them are needed."""
    boundary = boundary_bytes(view)
    if boundary <= (facts_of(target).memory_bytes or boundary):
        yield from _exceeds(view, target, boundary + intermediate_bytes(view), "tensors of the busiest operation")


def boundary_bytes(view: ModuleView) -> int:
    """Bytes of inputs and outputs; an output in the memory of an input counts once."""
    aliases = aliases_of(view.main)
    fresh = [output for index, output in enumerate(_returned(view)) if index not in aliases]
    return sum(map(bytes_of, (*view.main.regions[0].blocks[0].arguments, *fresh)))


def intermediate_bytes(view: ModuleView) -> int:
    """The largest sum of the entry function's values that are alive together, outputs left out."""
    operations = list(view.main.regions[0].blocks[0].operations)
    last_use: dict[Any, int] = {}
    for position, operation in enumerate(operations):
        last_use.update(dict.fromkeys(operation.operands, position))
    outputs = set(_returned(view))
    dying: dict[int, int] = {}
    alive = largest = 0
    for position, operation in enumerate(operations):
        for value in operation.results:
            if value in last_use and value not in outputs:
                alive += bytes_of(value)
                dying[last_use[value]] = dying.get(last_use[value], 0) + bytes_of(value)
        largest = max(largest, alive)
        alive -= dying.get(position, 0)
    return largest


def _exceeds(view: ModuleView, target: str, needed: int, what: str) -> Hits:
    limit = facts_of(target).memory_bytes
    if limit is not None and needed > limit:
        yield view.main, f"{what} take {_gib(needed)}, and a logical core of {target} has {_gib(limit)}"


def _returned(view: ModuleView) -> list[ir.Value]:
    return list(list(view.main.regions[0].blocks[0].operations)[-1].operands)


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.2f} GiB"
