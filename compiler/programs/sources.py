"""Digests of the Python sources that decide a program: the compiler's own, and those of the kernels in a graph."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from ...errors import ArtifactError
from ...runtime.sources import PACKAGE, source_digests, source_files

_STARTED = time.time()
_INSTALLED = {"site-packages", "dist-packages"}
_BY_VERSION = {"torch", "jaxlib", *sys.stdlib_module_names}
"""Packages that have parts of their own in a key, or that the machine's fingerprint stands for."""


def function_sources(function: Callable[..., Any]) -> dict[str, str]:
    """The sources of a function, as ``module_sources``; none for PyTorch's own, which its version stands for.

    Raises:
        ArtifactError: the sources do not determine what the function computes: it has no file, closes over values,
            or a file changed after this process started, so that what runs may be older.
    """
    name = str(getattr(function, "__module__", ""))
    if name.partition(".")[0] == "torch":
        return {}
    if not isinstance(function, FunctionType) or function.__closure__:
        raise ArtifactError(f"{function!r} is no plain function: its source does not determine what it computes")
    module = sys.modules.get(name)
    if module is None or _source(module) is None:
        raise ArtifactError(f"{function!r} has no source file")
    return module_sources(module)


def module_sources(first: ModuleType) -> dict[str, str]:
    """What a module and all that it imports consist of, by module name.

    Sources of this package count as in ``runtime.sources``. Those of modules that are installed nowhere, and of the
    package that ``first`` is of, count with their sha256; an installed package counts with its version.

    Raises:
        ArtifactError: as ``function_sources``.
    """
    found: dict[str, str] = {}
    waiting = [first]
    while waiting:
        module = waiting.pop()
        path = _source(module)
        if path is None or module.__name__ in found:
            continue
        if _top(module.__name__) == PACKAGE:
            found |= _own_sources(module.__name__)
        elif _top(module.__name__) != _top(first.__name__) and _INSTALLED.intersection(path.parts):
            found[_top(module.__name__)] = f"version {getattr(sys.modules[_top(module.__name__)], '__version__', None)}"
        else:
            found[module.__name__] = _file_digest(path)
            waiting += [sys.modules[name] for name in _imported(module.__name__, path) if name in sys.modules]
    return dict(sorted(found.items()))


@cache
def _own_sources(name: str) -> dict[str, str]:
    for path in source_files(name).values():
        _check_unchanged(path)
    return source_digests(name)


def _top(name: str) -> str:
    return name.partition(".")[0]


@cache
def _imported(module: str, path: Path) -> tuple[str, ...]:
    """Names that may be modules, in the import statements of a file."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    return tuple(name for name in _imports(path, package) if _top(name) not in _BY_VERSION)


def _imports(path: Path, package: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_bytes())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            relative = "." * node.level + (node.module or "")
            base = importlib.util.resolve_name(relative, package) if node.level else relative
            yield base
            yield from (f"{base}.{alias.name}" for alias in node.names)


def _source(module: ModuleType) -> Path | None:
    file = getattr(module, "__file__", None)
    return Path(file) if file and file.endswith(".py") and Path(file).exists() else None


@cache
def _file_digest(path: Path) -> str:
    _check_unchanged(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _check_unchanged(path: Path) -> None:
    if path.stat().st_mtime > _STARTED:
        raise ArtifactError(f"{path.name} changed after this process started, so what runs may be older")
