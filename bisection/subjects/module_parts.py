"""A StableHLO module taken apart: its entry function, and how operations are copied from one module to another.

The MLIR context that a module was parsed in has to be entered while its parts are used.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

ENTRY = "main"
"""The name of the function that a compiler starts from."""


@dataclass(frozen=True)
class EntryFunction:
    """The function that a program starts with.

    Attributes:
        module: that it belongs to; keeps everything here alive.
        function: a func.func of one block.
        block: its body.
        operations: of the body, in order, without the terminator.
        returned: values that the terminator returns.
    """

    module: ir.Module
    function: Any
    block: ir.Block
    operations: Sequence[Any]
    returned: Sequence[ir.Value]

    @property
    def terminator(self) -> Any:
        """The operation that returns the results."""
        return list(self.block.operations)[-1].operation


def entry_of(module: ir.Module) -> EntryFunction:
    """The function ``main`` of a module that ``read_module`` returned."""
    function = functions_of(module)[ENTRY]
    block = function.regions[0].blocks[0]
    *operations, terminator = [one.operation for one in block.operations]
    return EntryFunction(module, function, block, operations, list(terminator.operands))


def functions_of(module: ir.Module) -> dict[str, Any]:
    """The functions of a module by their names, in order."""
    functions = [one.operation for one in module.body.operations if one.operation.name == "func.func"]
    return {ir.StringAttr(one.attributes["sym_name"]).value: one for one in functions}


def is_public(function: Any) -> bool:
    """Whether other modules may call a function."""
    attributes = function.attributes
    return "sym_visibility" not in attributes or ir.StringAttr(attributes["sym_visibility"]).value == "public"


def nested(operation: Any) -> Iterator[Any]:
    """The operation and those of its regions, outer ones first."""
    yield operation
    for region in operation.regions:
        for block in region:
            for inner in block.operations:
                yield from nested(inner.operation)


def copy_operation(operation: Any, copies: MutableMapping[ir.Value, ir.Value]) -> Any:
    """Copy an operation to the current insertion point, on other values.

    Args:
        copies: what stands for the values that it uses; those it makes are added.
    """
    copy = operation.clone(ir.InsertionPoint.current)
    for inner in nested(copy):
        for position, value in enumerate(inner.operands):
            if value in copies:
                inner.operands[position] = copies[value]
    copies.update(zip(operation.results, copy.results, strict=True))
    return copy


def set_type(function: Any, inputs: Sequence[ir.Value], results: Sequence[ir.Value]) -> None:
    """Give a function the type of its arguments and of what it returns."""
    type = ir.FunctionType.get([one.type for one in inputs], [one.type for one in results])
    function.attributes["function_type"] = ir.TypeAttr.get(type)


def bytecode(module: ir.Module) -> bytes:
    """The module as MLIR bytecode."""
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()
