"""Functions that operations of a module call, and names for them that do not depend on their place in it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from jaxlib.mlir import ir

from .module_parts import ENTRY, functions_of, nested

_NUMBER = re.compile(r"([._]\d+)+$")
_DIGITS = 12


def called_by(operation: Any) -> list[str]:
    """Names of the functions that an operation or its regions refer to, in order, each once."""
    names: dict[str, None] = {}
    for inner in nested(operation):
        for _, attribute in _references(inner):
            names.update(dict.fromkeys(_names(attribute)))
    return [*names]


def needed_functions(calls: Iterable[str], calls_of: Callable[[str], Iterable[str]]) -> list[str]:
    """Functions that are called, and those that they call, in order of their first use.

    Args:
        calls: names in order.
        calls_of: the functions that a function calls.
    """
    needed: dict[str, None] = {}

    def visit(name: str) -> None:
        if name not in needed:
            needed[name] = None
            for one in calls_of(name):
                visit(one)

    for name in calls:
        visit(name)
    return [*needed]


def name_by_content(module: ir.Module) -> None:
    """Give private functions names made of what they compute, so that equal ones are one function.

    ``quantize_fp8_7`` becomes ``quantize_fp8_`` and the beginning of a sha256 of its text, source lines included.
    """
    functions = {name: one for name, one in functions_of(module).items() if name != ENTRY}
    calls = {name: called_by(one) for name, one in functions.items()}
    names: dict[str, str] = {}
    for name in _callees_first(calls):
        function = functions[name]
        _rename_calls(function, names)
        base = _NUMBER.sub("", name)
        # The text must not have the old name in it.
        ir.SymbolTable.set_symbol_name(function, f"{base}.")
        text: Any = function.get_asm(enable_debug_info=True, use_local_scope=True)
        new = f"{base}_{hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]}"
        if new in names.values():
            function.erase()
        else:
            ir.SymbolTable.set_symbol_name(function, new)
        names[name] = new
    _rename_calls(functions_of(module)[ENTRY], names)


def _callees_first(calls: Mapping[str, Iterable[str]]) -> list[str]:
    seen: set[str] = set()
    ordered: list[str] = []

    def visit(name: str) -> None:
        if name in calls and name not in seen:
            seen.add(name)
            for one in calls[name]:
                visit(one)
            ordered.append(name)

    for name in calls:
        visit(name)
    return ordered


def _rename_calls(operation: Any, names: Mapping[str, str]) -> None:
    for inner in nested(operation):
        for name, attribute in _references(inner):
            inner.attributes[name] = _renamed(attribute, names)


def _references(operation: Any) -> list[tuple[str, Any]]:
    """The attributes of one operation that refer to functions."""
    return [(name, value) for name, value in operation.attributes.items() if _names(value)]


def _names(attribute: Any) -> list[str]:
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return [attribute.value]
    if isinstance(attribute, ir.ArrayAttr):
        return [name for one in attribute for name in _names(one)]
    return []


def _renamed(attribute: Any, names: Mapping[str, str]) -> Any:
    if isinstance(attribute, ir.FlatSymbolRefAttr):
        return ir.FlatSymbolRefAttr.get(names.get(attribute.value, attribute.value))
    return ir.ArrayAttr.get([_renamed(one, names) for one in attribute])
