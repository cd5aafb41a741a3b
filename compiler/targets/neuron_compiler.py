"""The neuronx-cc that is installed."""

from __future__ import annotations

import re
import shutil
import threading
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from ...errors import CompilerMissingError, ConfigError
from .process import ProcessLimits, run_process
from .working_directory import working_directory

_VERSION = re.compile(r"NeuronX Compiler version (\S+)")
_LIMITS = ProcessLimits(seconds=120.0)
_INSTALL = (
    "install it from AWS's own package index (the package of that name on the public index is a placeholder), or set "
    "DEEPINFER_NEURON_CC to its path"
)
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class NeuronCompiler:
    """A compiler that answered.

    Attributes:
        path: of its executable.
        version: as it prints it, with the revision: ``2.14.227.0+2d4f85be``.
    """

    path: Path
    version: str


def find_compiler(named: Path | None) -> NeuronCompiler:
    """The compiler at ``named``, or the first ``neuronx-cc`` on the search path; asked for its version once.

    Raises:
        CompilerMissingError: none was named, and there is none on the search path.
        ConfigError: there is none at ``named``, or it does not say its version as neuronx-cc does.
    """
    name = str(named or "neuronx-cc")
    found = shutil.which(name)
    if found is None:
        kind = CompilerMissingError if named is None else ConfigError
        raise kind(f"{name}: no such compiler; {_INSTALL}")
    path = Path(found).resolve()
    stat = path.stat()
    # One thread asks, those that compile beside it take its answer.
    with _LOCK:
        return NeuronCompiler(path, _version(path, stat.st_mtime_ns, stat.st_size))


@lru_cache(maxsize=8)
def _version(path: Path, modified_ns: int, size: int) -> str:
    """The version of the executable that has this time and size: another one is asked again."""
    with working_directory() as directory:
        result = run_process([str(path), "--version"], directory, _LIMITS)
    match = _VERSION.search(result.output)
    if result.outcome != "ok" or match is None:
        said = result.output.strip()[:200] or "nothing"
        raise ConfigError(
            f"{path} --version {result.ending} and printed {said!r}, expected 'NeuronX Compiler version'; {_INSTALL}"
        )
    return match[1]
