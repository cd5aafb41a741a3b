"""Directories as the vendor's tools leave them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

COMPILER = "neuronxcc-2.27.5334.0+6f180f47"
OLD_COMPILER = "neuronxcc-2.14.227.0+2d4f85be"
MODULE = "MODULE_1494686516964995913+d41d8cd9"


def make_module(
    root: Path,
    files: dict[str, bytes],
    name: str = MODULE,
    compiler: str = COMPILER,
    flags: list[str] | None = None,
    age_s: float = 0.0,
) -> Path:
    """One compilation with these files, last written so many seconds ago."""
    directory = root / compiler / name
    directory.mkdir(parents=True)
    if flags is not None:
        files = {"compile_flags.json": json.dumps(flags).encode()} | files
    written = time.time() - age_s
    for file, content in files.items():
        (directory / file).write_bytes(content)
        os.utime(directory / file, (written, written))
    return directory
