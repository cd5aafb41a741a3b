"""An HLO module proto as StableHLO."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ...errors import ArtifactError
from ..lowering.context import shared_context
from .wire import Field, message, read_fields, write_fields

_COMPUTATIONS, _INSTRUCTIONS, _ID, _IS_COMPOSITE = 3, 2, 35, 89
_LOCAL_ID, _LARGEST_LOCAL_ID = (1 << 32) - 1, 1 << 24
"""The upper half of an id is the computation's. XLA makes a table as long as the largest lower half."""

_FRONTEND_ATTRIBUTES = "mhlo.frontend_attributes"
_NAME = "composite.name"


def stablehlo_of(proto: bytes) -> bytes:
    """StableHLO bytecode of an HLO module proto; calls that were composites are composites again.

    Raises:
        ArtifactError: ``proto`` is no HLO module proto, or one that StableHLO has no operations for.
    """
    try:
        content = _jax.mlir.hlo_to_stablehlo(_without_composites(proto))
        with shared_context(), ir.Location.unknown():
            module = ir.Module.parse(content)
            _restore_composites(module)
            buffer = io.BytesIO()
            module.operation.write_bytecode(buffer)
    except (RuntimeError, ValueError, ir.MLIRError) as error:
        raise ArtifactError(f"XLA cannot read the HLO module proto as StableHLO: {error}") from error
    return buffer.getvalue()


def _without_composites(proto: bytes) -> bytes:
    """The same calls, none of them marked: jaxlib 0.10 gives a marked one with several results a single tuple."""
    return write_fields(_changed(field, _COMPUTATIONS, _unmarked_computation) for field in read_fields(proto))


def _unmarked_computation(fields: list[Field]) -> list[Field]:
    return [_changed(field, _INSTRUCTIONS, _unmarked_instruction) for field in fields]


def _unmarked_instruction(fields: list[Field]) -> list[Field]:
    for field in fields:
        if field.number == _ID and isinstance(field.value, int) and field.value & _LOCAL_ID > _LARGEST_LOCAL_ID:
            raise ArtifactError(f"the HLO module proto is damaged: an instruction has the id {field.value}")
    return [field for field in fields if field.number != _IS_COMPOSITE]


def _changed(field: Field, number: int, change: Callable[[list[Field]], list[Field]]) -> Field:
    return message(number, change(read_fields(field.content))) if field.number == number else field


def _restore_composites(module: ir.Module) -> None:
    calls: list[Any] = []

    def note(operation: Any) -> Any:
        if operation.name == "func.call" and _NAME in _frontend_attributes(operation):
            calls.append(operation)
        return ir.WalkResult.ADVANCE

    module.operation.walk(note)
    for call in calls:
        attributes = _frontend_attributes(call)
        with ir.InsertionPoint(call), call.location:
            composite = stablehlo.CompositeOp(
                [one.type for one in call.results],
                list(call.operands),
                attributes[_NAME].value,
                call.attributes["callee"].value,
                composite_attributes=ir.Attribute.parse(attributes["composite.attributes"].value),
                version=int(attributes["composite.version"].value),
            )
        for old, new in zip(call.results, composite.results, strict=True):
            old.replace_all_uses_with(new)
        call.erase()


def _frontend_attributes(operation: Any) -> Any:
    return operation.attributes.get(_FRONTEND_ATTRIBUTES, {})
