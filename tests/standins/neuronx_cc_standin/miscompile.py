"""Change one operation of a module, as a compiler with a mistake would."""

from __future__ import annotations

import io
from typing import Any

from jaxlib.mlir import ir


def miscompile(module: ir.Module, operation: Any, way: str, value: str) -> bytes:
    """The bytecode of ``module`` after a change of ``operation`` in place.

    ``swap`` puts an operation of the opcode ``value`` in its place, with the same operands and types. ``double`` adds
    its first floating-point result to itself.
    """
    with operation.location:
        if way == "swap":
            _swap(operation, f"stablehlo.{value}")
        else:
            _double(operation)
    if not module.operation.verify():
        raise ValueError(f"{way} {value} of {operation.name} gives no valid module")
    buffer = io.BytesIO()
    module.operation.write_bytecode(buffer)
    return buffer.getvalue()


def _swap(operation: Any, name: str) -> None:
    types = [result.type for result in operation.results]
    other = ir.Operation.create(name, types, list(operation.operands), ip=ir.InsertionPoint(operation))
    for old, new in zip(operation.results, other.results, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()


def _double(operation: Any) -> None:
    result = next(one for one in operation.results if _is_floating(one))
    sum_of_both = ir.Operation.create(
        "stablehlo.add", [result.type], [result, result], ip=ir.InsertionPoint.after(operation)
    )
    result.replace_all_uses_except(sum_of_both.result, sum_of_both)


def _is_floating(value: Any) -> bool:
    return isinstance(ir.RankedTensorType(value.type).element_type, ir.FloatType)
