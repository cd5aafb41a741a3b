"""The part of ``repro.py`` that is the same in every script: files of the package, whole, one after the other."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType

from ...compiler.targets import diagnostics, process_group, supervision
from ..probes import signature, verdict
from . import standalone

MODULES: tuple[ModuleType, ...] = (process_group, supervision, diagnostics, verdict, signature, standalone)
"""Each after those that it imports. They use the standard library alone, and no two of them define one name."""

_FUTURE = "from __future__ import annotations"


def script_source() -> str:
    """The source of ``MODULES`` without what they import of each other."""
    return "\n\n".join([_FUTURE, *(_without_own_imports(inspect.getsource(module)) for module in MODULES)])


def _without_own_imports(source: str) -> str:
    dropped: set[int] = set()
    for statement in ast.parse(source).body:
        if isinstance(statement, ast.ImportFrom) and (statement.level or statement.module == "__future__"):
            dropped |= set(range(statement.lineno, (statement.end_lineno or statement.lineno) + 1))
    return "\n".join(line for number, line in enumerate(source.splitlines(), 1) if number not in dropped)
