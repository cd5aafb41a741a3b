"""Versions of what decides how a graph is captured and lowered."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

import jaxlib.version
import torch

_PACKAGE = "deepinfer-neuron"


def versions() -> dict[str, str]:
    """By name: this package, PyTorch, jaxlib and Python."""
    return {
        _PACKAGE: _own_version(),
        "torch": str(torch.__version__),
        "jaxlib": jaxlib.version.__version__,
        "python": platform.python_version(),
    }


def _own_version() -> str:
    try:
        return version(_PACKAGE)
    except PackageNotFoundError:
        return "not installed"
