"""Other forms of a module: functions in the places of their calls, and one operation for several that are equal."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from ...compiler.lowering.context import shared_context
from .module_functions import called_by, needed_functions
from .module_lines import file_and_line
from .module_parts import ENTRY, bytecode, copy_operation, entry_of, functions_of, nested

_CALLEE = {"stablehlo.composite": "decomposition", "func.call": "callee"}


def inlined(module: bytes) -> bytes:
    """A module in whose entry every composite and call is replaced by the body of its function.

    Calls in those bodies stay, and so do functions that are still called. Operations get the model's line of the call
    that they replace. Without a call of a function with a body, the same bytes are returned.

    Args:
        module: as ``read_module`` returns it.
    """
    with shared_context(), ir.Location.unknown():
        parsed = ir.Module.parse(module)
        functions = functions_of(parsed)
        operations = nested(entry_of(parsed).function)
        calls = [(one, functions[one.attributes[_CALLEE[one.name]].value]) for one in operations if one.name in _CALLEE]
        calls = [(call, function) for call, function in calls if len(function.regions[0].blocks)]
        if not calls:
            return module
        for call, function in calls:
            _replace(call, function)
        _erase_unused(functions)
        parsed.operation.verify()
        return bytecode(parsed)


def deduplicated(module: bytes) -> bytes:
    """A module without operations that compute what an earlier one does, and without those that nothing reads.

    Compilers do that too, and can fail because of it. Where the entry function has none of either, the same bytes are
    returned.

    Args:
        module: as ``read_module`` returns it.
    """
    with shared_context():
        parsed = ir.Module.parse(module)
        before = len(entry_of(parsed).operations)
        PassManager.parse("builtin.module(cse)").run(parsed.operation)
        return bytecode(parsed) if len(entry_of(parsed).operations) < before else module


def _replace(call: Any, function: Any) -> None:
    block = function.regions[0].blocks[0]
    copies: dict[ir.Value, ir.Value] = dict(zip(block.arguments, call.operands, strict=True))
    *operations, terminator = [one.operation for one in block.operations]
    is_located = file_and_line(call) is not None
    with ir.InsertionPoint(call):
        for operation in operations:
            copy = copy_operation(operation, copies)
            if is_located:
                for inner in nested(copy):
                    inner.location = call.location
    for old, new in zip(call.results, terminator.operands, strict=True):
        old.replace_all_uses_with(copies[new])
    call.erase()


def _erase_unused(functions: dict[str, Any]) -> None:
    calls = {name: called_by(one) for name, one in functions.items()}
    used = {ENTRY, *needed_functions(calls[ENTRY], lambda name: calls.get(name, ()))}
    for name, function in functions.items():
        if name not in used:
            function.erase()
