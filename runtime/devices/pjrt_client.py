"""jaxlib's PJRT client for the CPU: one for a process, and the options that programs are compiled with."""

from __future__ import annotations

import threading
from functools import cache
from typing import Any

import jaxlib.version
from jaxlib import _jax, xla_client  # pyright: ignore[reportAttributeAccessIssue]

from ...settings import settings
from ..processor import processor_digest

STRICT_FLAGS: tuple[tuple[str, bool | str], ...] = (
    ("xla_allow_excess_precision", False),
    ("xla_cpu_experimental_ynn_fusion_type", "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT"),
)
"""Both are needed to keep every bf16 rounding: the first keeps convert pairs, the second stops fused dots."""


def compile_options() -> Any:
    """XLA options for one executable; loading needs the same as compiling."""
    options = xla_client.CompileOptions()
    options.env_option_overrides = list(STRICT_FLAGS)
    return options


_CLIENT_LOCK = threading.Lock()


def client() -> Any:
    """The process's PJRT client. The environment's ``PJRT_NPROC`` sets its threads, read here once."""
    with _CLIENT_LOCK:
        return _only_client()


@cache
def _only_client() -> Any:
    return xla_client.make_cpu_client()


@cache
def device_list() -> Any:
    """The one device that programs run on."""
    return _jax.DeviceList((client().local_devices()[0],))


@cache
def machine_fingerprint() -> str:
    """What a payload depends on: jaxlib, the flags above and the environment's, and the processor's features."""
    flags = ",".join([*(f"{name}={value}" for name, value in STRICT_FLAGS), *settings().xla_flags])
    return f"jaxlib {jaxlib.version.__version__}; {flags}; cpu {processor_digest()}"
