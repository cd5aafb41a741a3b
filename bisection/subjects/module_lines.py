"""The model's lines in a module, and nothing else of where its operations were made."""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from .module_parts import nested

_LINE = re.compile(r'"(?P<file>[^"]+)":(?P<line>\d+)')
_TEXT_ITSELF = "-"
"""The file that MLIR says a module without locations came from."""


def file_and_line(operation: Any) -> tuple[str, int] | None:
    """The model's file and line that an operation comes from; None if they are not known."""
    match = _LINE.search(str(operation.location))
    if match is None or match["file"] == _TEXT_ITSELF:
        return None
    return match["file"], int(match["line"])


def keep_only_lines(module: ir.Module) -> None:
    """Reduce the location of every operation to the model's line.

    Names and columns that others write there number operations, and depend on their place in the module.
    """
    lines = [file_and_line(operation) for operation in nested(module.operation)]
    PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
    for operation, line in zip(nested(module.operation), lines, strict=True):
        if line is not None:
            operation.location = ir.Location.file(*line, 0)
