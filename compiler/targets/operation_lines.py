"""Lines of the model by the operations that a module has of them."""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir

from ..lowering.context import shared_context

_LOCATION = re.compile(r'"(?P<file>[^"]+)":(?P<line>\d+)')


def operation_lines(bytecode: bytes, opcode: str) -> tuple[str, ...]:
    """Where a module's operations of an HLO opcode, such as ``sort``, come from: ``model/moe.py:80``, each once."""
    name = f"stablehlo.{opcode.replace('-', '_')}"
    lines: list[str] = []

    def note(operation: Any) -> Any:
        match = _LOCATION.search(str(operation.location))
        if operation.name == name and match:
            lines.append(f"{match['file']}:{match['line']}")
        return ir.WalkResult.ADVANCE

    with shared_context():
        ir.Module.parse(bytecode).operation.walk(note)
    return tuple(dict.fromkeys(lines))
