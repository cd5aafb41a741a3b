"""Compile the decode step of a language model for AWS Trainium, replay it, and prove it right on any CPU."""

from __future__ import annotations

import os
from importlib import import_module
from typing import TYPE_CHECKING

from . import errors
from .errors import DeepInferNeuronError

if TYPE_CHECKING:
    from .compiler.lowering.device_kernels.registry import register_kernel
    from .engine.compiling import compile_decode
    from .engine.loading import LoadedDecode, load_decode
    from .passes.stage_boundary import stage_boundary
    from .runtime.runner import DecodeRunner
    from .runtime.slots import PaddingPolicy, SlotSpec
    from .runtime.store.store import ArtifactStore

__all__ = [
    "ArtifactStore",
    "DecodeRunner",
    "DeepInferNeuronError",
    "LoadedDecode",
    "PaddingPolicy",
    "SlotSpec",
    "compile_decode",
    "errors",
    "load_decode",
    "register_kernel",
    "stage_boundary",
]

# jaxlib reads this once, when it is imported; its default announces every client on stderr.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")

_HOMES = {
    "ArtifactStore": ".runtime.store.store",
    "compile_decode": ".engine.compiling",
    "register_kernel": ".compiler.lowering.device_kernels.registry",
    "LoadedDecode": ".engine.loading",
    "load_decode": ".engine.loading",
    "DecodeRunner": ".runtime.runner",
    "PaddingPolicy": ".runtime.slots",
    "SlotSpec": ".runtime.slots",
    "stage_boundary": ".passes.stage_boundary",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used, so that importing the package does not load Dynamo."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name], __name__), name)
