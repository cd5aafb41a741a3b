"""The part of ``repro.py`` that is the same in every script: files of the package, whole, one after the other."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

from ...compiler.targets import diagnostics, process_group, supervision
from ..probes import failure_signature, verdict
from . import standalone

MODULES: tuple[ModuleType, ...] = (process_group, supervision, diagnostics, verdict, failure_signature, standalone)
"""Each after those that it imports. They use the standard library alone, and no two of them define one name."""


def script_source() -> str:
    """The source of ``MODULES`` without what they import of each other."""
    return "\n".join(["from __future__ import annotations", *map(_section, MODULES)])


def _section(module: ModuleType) -> str:
    source = inspect.getsource(module)
    dropped: set[int] = set()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom) and (statement.level or statement.module == "__future__"):
            dropped |= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    kept = (line for number, line in enumerate(source.splitlines(), 1) if number not in dropped)
    name = module.__name__.rpartition(".")[2]
    return "\n".join(["", "", f"# {f' {name}.py ':-^116}", "", *kept, ""])
