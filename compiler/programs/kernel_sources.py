"""The sources that decide what a device kernel computes, for the keys of programs."""

from __future__ import annotations

from importlib import import_module

from ..lowering.device_kernels.kernel import DeviceKernel, NkiSource
from .sources import function_sources, module_sources


def kernel_sources(kernel: DeviceKernel) -> dict[str, str]:
    """Digests by module name: of the kernel's own functions, and of its NKI source with everything that it imports.

    The compiler's own kernels have no source; its version, in the target's fingerprint, stands for them.

    Raises:
        ArtifactError: a source does not determine what is compiled (see ``sources.function_sources``).
    """
    found: dict[str, str] = {}
    for function in kernel.functions:
        found |= function_sources(function)
    if isinstance(kernel.code, NkiSource):
        found |= module_sources(import_module(kernel.code.module))
    return dict(sorted(found.items()))
