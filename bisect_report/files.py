"""Files of a report, whole or not at all."""

from __future__ import annotations

from pathlib import Path


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file so that nobody sees a part of it."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)
