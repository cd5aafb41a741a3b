"""The machine itself: Python, processor, settings, the store of compiled programs, and a program that is run."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys

from ..errors import ConfigError
from ..runtime.processor import usable_processors
from ..settings import Settings, settings
from .finding import Finding

FIRST_PYTHON = (3, 11)
_PROGRAM_S = 600
_GIB = 1 << 30


def find_host() -> list[Finding]:
    """Python, the processor, what the environment asks for, and whether a small program compiles and runs."""
    return [_python(), _processor(), *_settings(), _program()]


def _python() -> Finding:
    needs = ".".join(map(str, FIRST_PYTHON))
    if sys.version_info < FIRST_PYTHON:
        return Finding("Python", "wrong version", platform.python_version(), f"install {needs} or newer", needed=True)
    return Finding("Python", "ok", platform.python_version(), needed=True)


def _processor() -> Finding:
    cores, pages = usable_processors(), os.sysconf("SC_PHYS_PAGES")
    memory = pages * os.sysconf("SC_PAGE_SIZE") / _GIB
    return Finding("processor", "ok", f"{platform.machine()}, {cores} cores, {memory:.1f} GiB of memory")


def _settings() -> list[Finding]:
    try:
        asked = settings()
    except ConfigError as error:
        return [Finding("settings", "failed", str(error), "set the variable as the message says", needed=True)]
    return [Finding("settings", "ok", "all variables can be used", needed=True), _store(asked)]


def _store(asked: Settings) -> Finding:
    name = "store"
    if not asked.cache_directories:
        found = "DEEPINFER_NEURON_CACHE is not set: every process compiles"
        return Finding(name, "missing", found, "set it to a directory for compiled programs")
    directory = asked.cache_directories[0].absolute()
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    found = f"{directory}, {shutil.disk_usage(existing).free / _GIB:.1f} GiB free"
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        return Finding(name, "failed", found, f"make {existing} a directory that can be written")
    return Finding(name, "ok", found)


def _program_command() -> list[str]:
    return [sys.executable, "-P", "-m", f"{__package__}.host_program"]


def _program() -> Finding:
    """In a process of its own, since a library of the wrong version may end it."""
    name, command = "program on the host", _program_command()
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_PROGRAM_S)
    except subprocess.TimeoutExpired:
        return Finding(name, "failed", f"still running after {_PROGRAM_S} s", "try again when less runs", needed=True)
    if result.returncode:
        lines = result.stderr.strip().splitlines() or [f"ended with {result.returncode}"]
        return Finding(name, "failed", lines[-1], f"see it with `{' '.join(command)}`", needed=True)
    return Finding(name, "ok", "compiled, and computes what eager PyTorch does", needed=True)
