"""Digests of this package's own source files, for keys of what their code makes."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parent.parent


@cache
def source_digest(*parts: str) -> str:
    """sha256 of every Python file of the given folders and files, named relative to the package.

    Raises:
        FileNotFoundError: a part that does not exist.
    """
    content = hashlib.sha256()
    for part in parts:
        path = PACKAGE / part
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path]
        for file in files:
            content.update(file.relative_to(PACKAGE).as_posix().encode() + b"\0" + file.read_bytes() + b"\0")
    return content.hexdigest()
