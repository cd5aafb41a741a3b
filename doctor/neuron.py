"""The parts of the Neuron SDK that are no Python package, and the devices."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from ..compiler.targets.neuron_compiler import find_compiler
from ..errors import ConfigError, DeviceError
from ..runtime.devices.nrt.library import DEFAULT_LIBRARY, load_library
from ..settings import Settings
from .finding import Finding

_ANSWER_S = 120
_INSTALL_COMPILER = "for devices: to compile, neuronx-cc as above, or set DEEPINFER_NEURON_CC to its path"
_INSTALL_RUNTIME = "for devices: install aws-neuronx-runtime-lib from AWS's repository"
_INSTALL_DRIVER = "for devices: install aws-neuronx-dkms from AWS's repository"
_INSTALL_TOOLS = "for devices: install aws-neuronx-tools from AWS's repository, which has neuron-ls"


def find_neuron(root: Path, asked: Settings, variables: Mapping[str, str]) -> list[Finding]:
    """Compiler, runtime library, driver, devices, cores and the environment's ``variables``.

    Programs are found on the search path, files below ``root``, if the settings do not say where.
    """
    return [
        _compiler(asked.compiler),
        _library(asked.neuron_library or root / DEFAULT_LIBRARY.relative_to("/")),
        _driver(root),
        _devices(root),
        _cores(),
        Finding("NEURON_*", "ok", ", ".join(f"{name}={value}" for name, value in variables.items()) or "none is set"),
    ]


def _compiler(named: Path | None) -> Finding:
    name = "neuronx-cc --version"
    try:
        compiler = find_compiler(named)
    except ConfigError as error:
        is_there = shutil.which(str(named or "neuronx-cc")) is not None
        return Finding(name, "failed" if is_there else "missing", str(error) if is_there else "", _INSTALL_COMPILER)
    return Finding(name, "ok", f"{compiler.version}, {compiler.path}")


def _library(path: Path) -> Finding:
    if not path.exists():
        return Finding("libnrt", "missing", f"no {path}", _INSTALL_RUNTIME)
    try:
        load_library(path)
    except DeviceError as error:
        return Finding("libnrt", "failed", str(error), _INSTALL_RUNTIME)
    return Finding("libnrt", "ok", str(path.resolve()))


def _driver(root: Path) -> Finding:
    path = root / "sys/module/neuron/version"
    if not path.exists():
        return Finding("driver", "missing", "the kernel has no module neuron", _INSTALL_DRIVER)
    return Finding("driver", "ok", path.read_text().strip())


def _devices(root: Path) -> Finding:
    nodes = sorted((root / "dev").glob("neuron[0-9]*"), key=lambda node: int(node.name.removeprefix("neuron")))
    if not nodes:
        return Finding("devices", "missing", f"no {root / 'dev/neuron*'}", "for devices: an instance with Trainium")
    closed = [node.name for node in nodes if not os.access(node, os.R_OK | os.W_OK)]
    if closed:
        return Finding("devices", "failed", f"{', '.join(closed)} cannot be opened", "ask for the right to use them")
    return Finding("devices", "ok", f"{len(nodes)}: {nodes[0].name} to {nodes[-1].name}")


def _cores() -> Finding:
    """What ``neuron-ls --json-output`` says: a list of devices."""
    name = "cores and LNC"
    path = shutil.which("neuron-ls")
    if path is None:
        return Finding(name, "missing", "", _INSTALL_TOOLS)
    said = _answer([path, "--json-output"])
    try:
        devices = json.loads(said)
        cores = sum(device["nc_count"] for device in devices)
        sizes = {device.get("logical_neuroncore_config", 1) for device in devices}
    except (ValueError, TypeError, KeyError, AttributeError):
        return Finding(name, "failed", f"{path} says {said.strip()[:200]!r}", _INSTALL_TOOLS)
    logical = " or ".join(map(str, sorted(sizes)))
    return Finding(name, "ok", f"{cores} physical cores on {len(devices)} devices, LNC {logical}")


def _answer(command: list[str]) -> str:
    """What a command prints, or why it prints nothing."""
    try:
        result = subprocess.run(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=_ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return result.stdout.decode(errors="replace")
