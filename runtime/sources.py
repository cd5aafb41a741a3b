"""Which of this package's files decide what its code makes, and digests of them, for keys of what is made.

Imports are followed in the files, without importing any: a process that serves asks for the sources of a compiler
that it never loads. A digest is of the code alone: comments, docstrings and blank lines do not reach what is made.
Files are read with regular expressions, since Python's own parser would take a second of each start; a test compares
the two on every file of the package.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.util import resolve_name
from pathlib import Path

PACKAGE = __name__.partition(".")[0]
ROOT = Path(__file__).parent.parent

WITHOUT_EFFECT = {
    PACKAGE: "it only gives names to what is elsewhere",
    f"{PACKAGE}.errors": "it says why there is nothing",
    f"{PACKAGE}.files": "it writes what it is given",
    f"{PACKAGE}.reporting": "it says what is being done",
    f"{PACKAGE}.runtime.stats": "it says what was done",
    f"{PACKAGE}.settings": "a value that decides something is a part of its key",
}
"""Modules that nearly every file imports and that decide nothing of what is made, with the reason."""

_TEXT = r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""|\'\'\'[^\'\\]*(?:(?:\\.|\'(?!\'\'))[^\'\\]*)*\'\'\''
_LINE = r'"[^"\\\n]*(?:\\.[^"\\\n]*)*"|\'[^\'\\\n]*(?:\\.[^\'\\\n]*)*\''
_TEXTS = re.compile(_TEXT, re.S)
_TOKENS = re.compile(rf"(?P<text>{_TEXT})|(?P<line>{_LINE})|#[^\n]*|\n\s*(?=[\n#])", re.S)
_FOR_TYPES = re.compile(r"\nif TYPE_CHECKING:(?:\n[ \t]+[^\n]*)+")
_FROM = r"from[ \t]+(?P<base>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n]+)"
_IMPORT = re.compile(rf"\n[ \t]*(?:{_FROM}|import[ \t]+(?P<modules>[^\n]+))")


@dataclass(frozen=True)
class _Source:
    """sha256 of a file's code, and the modules of this package that it imports."""

    digest: str
    imports: tuple[str, ...]


def source_files(*entries: str) -> dict[str, Path]:
    """The modules of this package that the ``entries`` import, directly or not, and the entries: file by full name.

    Imports inside functions count, those for type checkers do not, and nothing of ``WITHOUT_EFFECT``.

    Raises:
        ModuleNotFoundError: an entry that is not a module of this package.
    """
    found: dict[str, Path] = {}
    for entry in entries:
        if _file(entry) is None:
            raise ModuleNotFoundError(f"{entry} is not a module of {PACKAGE}", name=entry)
    waiting = list(entries)
    while waiting:
        name = waiting.pop()
        path = None if name in found or name in WITHOUT_EFFECT else _file(name)
        if path is not None:
            found[name] = path
            waiting += _source(name, path).imports
    return dict(sorted(found.items()))


def source_digests(*entries: str) -> dict[str, str]:
    """sha256 of the code of each of ``source_files``, by full name; raises as that does."""
    return {name: _source(name, path).digest for name, path in source_files(*entries).items()}


def code_of(text: str) -> str:
    """A file's text without comments, blank lines and trailing spaces, and with empty docstrings."""
    return "\n".join(map(str.rstrip, _TOKENS.sub(_kept, text).strip().split("\n")))


def imports_of(code: str, package: str) -> Iterator[str]:
    """Full names that may be modules in the import statements of ``code_of`` a file of ``package``, but for types."""
    for statement in _IMPORT.finditer(_FOR_TYPES.sub("", "\n" + _TEXTS.sub('""', code))):
        if statement["modules"]:
            yield from _names(statement["modules"])
        else:
            base = resolve_name(statement["base"], package)
            yield base
            yield from (f"{base}.{name}" for name in _names(statement["names"]))


def _kept(token: re.Match[str]) -> str:
    if token["text"] and _is_alone(token):
        return '""'
    return token["text"] or token["line"] or ""


def _is_alone(token: re.Match[str]) -> bool:
    """Whether there is nothing else on its lines, which makes a text a docstring."""
    text, (start, end) = token.string, token.span()
    before = text[text.rfind("\n", 0, start) + 1 : start]
    return before.strip() in ("", "r") and text[end : end + 1] in ("\n", "")


def _names(listed: str) -> Iterable[str]:
    return (one.split()[0] for one in listed.strip("()").split(",") if one.strip())


@cache
def _file(name: str) -> Path | None:
    top, *parts = name.split(".")
    if top != PACKAGE:
        return None
    path = ROOT.joinpath(*parts)
    return next((one for one in (path.with_suffix(".py"), path / "__init__.py") if one.is_file()), None)


def _source(name: str, path: Path) -> _Source:
    state = path.stat()
    return _read(name, path, state.st_mtime_ns, state.st_size)


@cache
def _read(name: str, path: Path, changed_ns: int, size: int) -> _Source:
    """``changed_ns`` and ``size`` tell a file from what it was before."""
    code = code_of(path.read_text())
    package = name if path.name == "__init__.py" else name.rpartition(".")[0]
    own = {one for one in imports_of(code, package) if _file(one) is not None}
    return _Source(hashlib.sha256(code.encode()).hexdigest(), tuple(own))
