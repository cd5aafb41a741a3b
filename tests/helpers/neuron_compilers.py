"""Puts the stand-in for neuronx-cc where a target finds it, and finds what it leaves running."""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

STANDIN = Path(__file__).parents[1] / "standins" / "neuronx_cc_standin"


def install_compiler(
    directory: Path,
    fault: str = "",
    version: str = "2.27.5334.0+6f180f47",
    plants: Sequence[dict[str, Any]] = (),
) -> Path:
    """An executable ``neuronx-cc`` in a directory that fails as ``fault`` and ``plants`` say.

    ``faults.py`` and ``plants.py`` of the stand-in describe them.
    """
    directory.mkdir(parents=True, exist_ok=True)
    settings = {
        "NEURONX_CC_STANDIN_FAULT": fault,
        "NEURONX_CC_STANDIN_VERSION": version,
        "NEURONX_CC_STANDIN_COUNT": str(directory / "runs"),
        "NEURONX_CC_STANDIN_PLANT": json.dumps(list(plants)),
    }
    exports = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items())
    path = directory / "neuronx-cc"
    command = shlex.join([sys.executable, str(STANDIN)])
    path.write_text(f'#!/bin/sh\n{exports}exec {command} "$@"\n')
    path.chmod(0o755)
    return path


def compiler_processes(directory: Path) -> list[int]:
    """Ids of the living processes that a stand-in in this directory started."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            if str(directory).encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found
