"""Files that are written whole or not at all."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
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
    partial = path.with_name(f".{path.name}.partial")
    partial.write_bytes(content)
    partial.replace(path)
