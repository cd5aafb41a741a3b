"""A file of the package as source that stands alone: what it uses of other files is copied into it."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import Path

from ...errors import ConfigError

_FUTURE = "from __future__ import annotations"


def standalone_source(path: Path, leave_out: frozenset[str] = frozenset()) -> str:
    """The source of ``path`` after everything that it uses of other files of the package, and of these only that.

    Args:
        path: of a file of the package.
        leave_out: names that are mentioned in what is copied and that running it never comes to.

    Raises:
        ConfigError: something needs a library that does not come with Python, or two files use one public name.
    """
    source, collected = _Source.read(path), _Collected(leave_out)
    for name in source.definitions:
        collected.add(source, name)
    text = "\n".join([_FUTURE, "", *sorted(collected.imports)])
    for last, segment in pairwise(["", *collected.segments]):
        text += ("\n" if _is_line(last) and _is_line(segment) else "\n\n\n") + segment
    return f"{text}\n"


@dataclass(frozen=True, eq=False)
class _Source:
    """A parsed file: its definitions, and what it imports, by name."""

    path: Path
    lines: list[str]
    definitions: dict[str, ast.stmt]
    imports: dict[str, ast.Import | ast.ImportFrom]

    @staticmethod
    @cache
    def read(path: Path) -> _Source:
        text = path.read_text(encoding="utf-8")
        definitions: dict[str, ast.stmt] = {}
        imports: dict[str, ast.Import | ast.ImportFrom] = {}
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Import | ast.ImportFrom):
                imports |= {alias.asname or alias.name: statement for alias in statement.names}
            else:
                definitions |= dict.fromkeys(_defined_names(statement), statement)
        return _Source(path, text.splitlines(), definitions, imports)

    def is_own(self, name: str) -> bool:
        """Whether a name is one of the package's."""
        found = self.imports.get(name)
        return name in self.definitions or (isinstance(found, ast.ImportFrom) and found.level > 0)

    def segment(self, statement: ast.stmt) -> str:
        """A statement as it is written, with its decorators."""
        first = min(node.lineno for node in [statement, *getattr(statement, "decorator_list", [])])
        return "\n".join(self.lines[first - 1 : statement.end_lineno])


@dataclass
class _Collected:
    """What a script is made of, each definition after those that it uses."""

    leave_out: frozenset[str]
    imports: set[str] = field(default_factory=set)
    segments: list[str] = field(default_factory=list)
    owners: dict[str, Path] = field(default_factory=dict)
    done: set[tuple[Path, int]] = field(default_factory=set)

    def add(self, source: _Source, name: str) -> None:
        """A name that a file defines or imports; any other is Python's own or a local one."""
        if name in self.leave_out:
            return
        if name in source.imports:
            self._add_import(source, source.imports[name], name)
        elif name in source.definitions:
            self._add_definition(source, source.definitions[name])

    def _add_definition(self, source: _Source, statement: ast.stmt) -> None:
        if (source.path, statement.lineno) in self.done:
            return
        self.done.add((source.path, statement.lineno))
        for name in _defined_names(statement):
            owner = self.owners.setdefault(name, source.path)
            if owner != source.path and not name.startswith("_"):
                raise ConfigError(f"{source.path.name} and {owner.name} both define {name}: rename one")
        evaluated = _evaluated_names(statement)
        for node in ast.walk(statement):
            # Nothing evaluates annotations, so those that Python itself has are enough.
            if isinstance(node, ast.Name) and (node.id in evaluated or not source.is_own(node.id)):
                self.add(source, node.id)
        self.segments.append(self._renamed(source, source.segment(statement)))

    def _renamed(self, source: _Source, segment: str) -> str:
        """A segment in which private names that another file has as well carry their file's name."""
        for name in source.definitions:
            if name.startswith("_") and self.owners.get(name, source.path) != source.path:
                segment = re.sub(rf"(?<![\w.]){name}(?!\w)", f"_{source.path.stem}{name}", segment)
        return segment

    def _add_import(self, source: _Source, statement: ast.Import | ast.ImportFrom, name: str) -> None:
        if isinstance(statement, ast.ImportFrom) and statement.level:
            folder = source.path.parents[statement.level - 1]
            path = folder.joinpath(*(statement.module or "").split(".")).with_suffix(".py")
            self.add(_Source.read(path), name)
            return
        module = (statement.module or "") if isinstance(statement, ast.ImportFrom) else name
        if module.split(".")[0] not in sys.stdlib_module_names:
            raise ConfigError(f"{source.path.name} uses {module}, which does not come with Python")
        self.imports.add(f"from {module} import {name}" if isinstance(statement, ast.ImportFrom) else f"import {name}")


def _evaluated_names(statement: ast.stmt) -> set[str]:
    """Names in a statement outside annotations."""
    notes: set[ast.AST] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.FunctionDef) and node.returns:
            notes |= set(ast.walk(node.returns))
        if isinstance(node, ast.arg | ast.AnnAssign) and node.annotation:
            notes |= set(ast.walk(node.annotation))
    return {node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and node not in notes}


def _defined_names(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement of a module defines."""
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name))


def _is_line(segment: str) -> bool:
    return bool(segment) and "\n" not in segment
