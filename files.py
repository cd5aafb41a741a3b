"""Files that are written whole or not at all."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def write_report(path: Path | None, report: Any) -> None:
    """Write a dataclass or a mapping as JSON to ``path``, whole or not at all; None writes nothing."""
    if path is None:
        return
    content = report if isinstance(report, Mapping) else dataclasses.asdict(report)
    write_text(path, json.dumps(content, indent=2) + "\n")


def write_text(path: Path, text: str) -> None:
    """Write a text file in UTF-8, whole or not at all."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that nobody sees a part of it."""
    with written_whole(path) as partial:
        partial.write_bytes(content)


@contextmanager
def written_whole(path: Path) -> Iterator[Path]:
    """A name beside ``path`` that nobody else uses, for a file that takes its place after the block.

    If the block raises, an older file stays and the new one is removed.
    """
    partial = path.with_name(f".{path.name}.{secrets.token_hex(8)}.partial")
    try:
        yield partial
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
