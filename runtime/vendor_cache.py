"""The cache of the vendor's own tools: which modules they compiled, which failed, which are being compiled.

Layout: AWS Neuron SDK documentation, "Neuron Persistent Cache":
``<root>/neuronxcc-<version>/MODULE_<module hash>+<flags hash>/`` with ``model.neff``, ``model.done`` once that is
whole, ``compile_flags.json``, ``model.hlo_module.pb`` (``model.hlo.pb`` in older ones), ``model.log`` and lock files.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shlex
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Literal
from urllib.parse import unquote, urlsplit

from ..errors import ConfigError, InputError

DEFAULT_ROOT = Path("/var/tmp/neuron-compile-cache")
ABANDONED_AFTER_S = 3600.0

NEFF, DONE, FLAGS, LOG = "model.neff", "model.done", "compile_flags.json", "model.log"
HLO_NAMES = ("model.hlo_module.pb", "model.hlo_module.pb.gz", "model.hlo.pb", "model.hlo.pb.gz")

State = Literal["success", "failed", "active", "stale", "empty"]

_COMPILER = re.compile(r"neuronxcc-(?P<version>.+)")
_MODULE = re.compile(r"MODULE_(?P<module>[^+]+)\+(?P<flags>[^+]+)")
_TAIL_BYTES, _TAIL_LINES = 8192, 20


@dataclass(frozen=True)
class VendorModule:
    """One compilation in the vendor's cache.

    Attributes:
        directory: of the compilation.
        compiler_version: such as ``2.27.5334.0+6f180f47``.
        module_hash: the vendor's hash of the module.
        flags_hash: the vendor's hash of the flags.
        flags: the compiler flags, or None if they were not recorded or cannot be read.
        state: ``success``: compiled. ``failed``: there is a log and no program; the vendor's tools refuse to try
            again, also after an interrupt. ``active``: being compiled. ``stale``: begun and given up. ``empty``: none.
        neff: the program, if there is one; whole only in state ``success``.
        neff_bytes: its size.
        hlo: the module that was compiled, if it was kept.
        log_tail: last lines of the compiler's log; nothing if there is none or it must not be read.
        age_s: seconds since any of the files was written.
    """

    directory: Path
    compiler_version: str
    module_hash: str
    flags_hash: str
    flags: tuple[str, ...] | None
    state: State
    neff: Path | None
    neff_bytes: int
    hlo: Path | None
    log_tail: str
    age_s: float


def cache_root(url: str, compiler_flags: str) -> Path:
    """The directory that the vendor's tools would use.

    Args:
        url: value of ``NEURON_COMPILE_CACHE_URL``.
        compiler_flags: value of ``NEURON_CC_FLAGS``, whose ``--cache_dir`` goes before ``url``.

    Raises:
        ConfigError: the place is not on a file system, or the flags are no shell words.
    """
    place = _cache_dir_flag(compiler_flags) or url
    if not place:
        return DEFAULT_ROOT
    parts = urlsplit(place)
    if parts.scheme == "file" and parts.netloc in ("", "localhost"):
        return Path(unquote(parts.path))
    if "://" in place:
        raise ConfigError(
            f"vendor cache {place!r}: only directories can be read; copy it (aws s3 sync) and name the copy"
        )
    return Path(place)


def find_modules(root: Path, abandoned_after_s: float = ABANDONED_AFTER_S) -> tuple[VendorModule, ...]:
    """All compilations under ``root``, of all compiler versions, in the order of their names; nothing is changed.

    Args:
        root: directory with ``neuronxcc-*`` directories; others are passed over.
        abandoned_after_s: a compilation whose lock nobody on this machine holds counts as active for so many seconds
            after its last sign of life, since a lock that another machine holds on a shared file system is not seen.

    Raises:
        InputError: ``root`` is no directory.
    """
    if not root.is_dir():
        raise InputError(f"vendor cache {root}: no such directory; name the one with the neuronxcc-* directories")
    return tuple(
        _module(directory, compiler["version"], module, abandoned_after_s)
        for compiler_directory, compiler in _matching(root, _COMPILER)
        for directory, module in _matching(compiler_directory, _MODULE)
    )


def _cache_dir_flag(compiler_flags: str) -> str:
    try:
        words = shlex.split(compiler_flags)
    except ValueError as error:
        raise ConfigError(f"NEURON_CC_FLAGS={compiler_flags!r}: expected shell words ({error})") from error
    place = ""
    for word, following in pairwise([*words, ""]):
        if word == "--cache_dir":
            place = following
        elif word.startswith("--cache_dir="):
            place = word.partition("=")[2]
    return place


def _matching(directory: Path, pattern: re.Pattern[str]) -> Iterator[tuple[Path, re.Match[str]]]:
    for path in sorted(directory.iterdir()):
        match = pattern.fullmatch(path.name)
        if match and path.is_dir():
            yield path, match


def _module(directory: Path, version: str, name: re.Match[str], abandoned_after_s: float) -> VendorModule:
    files = _files(directory)
    newest = max((found.st_mtime for found in files.values()), default=time.time())
    age_s = max(0.0, time.time() - newest)
    hlo = next((name for name in HLO_NAMES if name in files), None)
    return VendorModule(
        directory=directory,
        compiler_version=version,
        module_hash=name["module"],
        flags_hash=name["flags"],
        flags=_flags(directory / FLAGS) if FLAGS in files else None,
        state=_state(directory, files, age_s <= abandoned_after_s),
        neff=directory / NEFF if _has_program(files) else None,
        neff_bytes=files[NEFF].st_size if _has_program(files) else 0,
        hlo=directory / hlo if hlo else None,
        log_tail=_tail(directory / LOG) if LOG in files else "",
        age_s=age_s,
    )


def _state(directory: Path, files: Mapping[str, os.stat_result], is_recent: bool) -> State:
    locks = [name for name in files if name.endswith(".lock")]
    if _has_program(files) and DONE in files:
        return "success"
    if any(_is_held(directory / lock) for lock in locks):
        return "active"
    if LOG in files and not _has_program(files):
        return "failed"
    if locks:
        return "active" if is_recent else "stale"
    return "stale" if NEFF in files else "empty"


def _has_program(files: Mapping[str, os.stat_result]) -> bool:
    return NEFF in files and files[NEFF].st_size > 0


def _files(directory: Path) -> dict[str, os.stat_result]:
    """The regular files of a directory that others may be writing to or removing."""
    try:
        statuses = {path.name: _status(path) for path in directory.iterdir()}
    except FileNotFoundError:
        return {}
    return {name: status for name, status in statuses.items() if status and stat.S_ISREG(status.st_mode)}


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _is_held(lock: Path) -> bool:
    """Whether a process of this machine is seen to hold the lock; asking waits for nobody and leaves no trace."""
    try:
        descriptor = os.open(lock, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, PermissionError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def _flags(path: Path) -> tuple[str, ...] | None:
    try:
        flags = json.loads(path.read_bytes())
    except (FileNotFoundError, PermissionError, ValueError, RecursionError):
        return None
    return tuple(map(str, flags)) if isinstance(flags, list) else None


def _tail(log: Path) -> str:
    try:
        with log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - _TAIL_BYTES))
            text = file.read().decode("utf-8", "replace")
    except (FileNotFoundError, PermissionError):
        return ""
    return "\n".join(text.splitlines()[-_TAIL_LINES:])
