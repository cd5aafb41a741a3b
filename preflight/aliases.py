"""Rules about outputs that reuse the memory of an input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from jaxlib.mlir import ir

from .module_view import ModuleView

_KEEPS_MEMORY = frozenset({"stablehlo.reshape", "stablehlo.bitcast_convert", "stablehlo.convert"})
_UPDATES = frozenset({"stablehlo.scatter", "stablehlo.dynamic_update_slice"})

Hits = Iterator[tuple[Any, str]]


def aliases_of(function: Any) -> Mapping[int, int]:
    """Output index -> index of the input whose memory it reuses."""
    if "arg_attrs" not in function.attributes:
        return {}
    attributes = [ir.DictAttr(one) for one in ir.ArrayAttr(function.attributes["arg_attrs"])]
    return {
        ir.IntegerAttr(one["tf.aliasing_output"]).value: index
        for index, one in enumerate(attributes)
        if "tf.aliasing_output" in one
    }


def reads_after_writes(view: ModuleView, target: str) -> Hits:
    """Reads of an input after the operation that begins to update it in place."""
    block = view.main.regions[0].blocks[0]
    order = {operation.operation: position for position, operation in enumerate(block.operations)}
    outputs = list(block.operations)[-1].operands
    for output, source in aliases_of(view.main).items():
        argument = block.arguments[source]
        first = _first_update(outputs[output], argument)
        if first is None:
            continue
        for use in argument.uses:
            if order[_in_block(use.owner, block)] > order[first.operation]:
                yield use.owner, f"reads input {source} after {first.name} has updated it"


def _first_update(value: Any, argument: Any) -> Any:
    """The first of the updates in a chain from ``argument`` to ``value``; None if they are no such chain."""
    found = None
    while value != argument:
        owner = value.owner
        if isinstance(owner, ir.Block) or owner.name not in _KEEPS_MEMORY | _UPDATES:
            return None
        found = owner if owner.name in _UPDATES else found
        value = owner.operands[0]
    return found


def _in_block(owner: Any, block: Any) -> Any:
    """The operation of ``block`` that ``owner`` is, or is inside of."""
    operation = owner.operation
    while operation.block != block:
        operation = operation.parent.operation
    return operation
