"""One operation of a module on one line, for people."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

from jaxlib.mlir import ir

_WIDTH = 200
_VALUES = 8
"""Constants of more elements than these are shown without their values."""


def operation_text(operation: Any, state: ir.AsmState) -> str:
    """The operation without its regions and the values of large constants, shortened.

    Args:
        state: with the names of the values of its module.
    """
    if len(operation.regions) or _is_large_constant(operation):
        text = _outline(operation, state)
    else:
        file = io.StringIO()
        operation.print(state, file)
        text = " ".join(file.getvalue().split())
    return text if len(text) <= _WIDTH else f"{text[: _WIDTH - 3]}..."


def operation_name(operation: Any, state: ir.AsmState) -> str:
    """The name of what an operation makes, such as ``%12``; the operation's own if it makes nothing."""
    return operation.results[0].get_name(state).partition("#")[0] if len(operation.results) else operation.name


def _is_large_constant(operation: Any) -> bool:
    if operation.name != "stablehlo.constant":
        return False
    value = operation.attributes["value"]
    if isinstance(value, ir.DenseElementsAttr):
        return not value.is_splat and len(value) > _VALUES
    return True


def _outline(operation: Any, state: ir.AsmState) -> str:
    given = ", ".join(value.get_name(state) for value in operation.operands)
    arguments = (
        "dense<...>" if operation.name == "stablehlo.constant" else f"({given}) : {_types(operation.operands)} ->"
    )
    count = len(operation.results)
    name = f"{operation_name(operation, state)}{f':{count}' if count > 1 else ''} = " if count else ""
    return f"{name}{operation.name} {arguments} {_types(operation.results)}".replace("dense<...> ", "dense<...> : ")


def _types(values: Iterable[ir.Value]) -> str:
    types = [str(value.type) for value in values]
    return types[0] if len(types) == 1 else f"({', '.join(types)})"
