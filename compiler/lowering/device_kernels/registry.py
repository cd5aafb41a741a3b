"""The kernels of this process: those that users registered, then those that ship."""

from __future__ import annotations

from ....errors import ConfigError
from ....passes.target_facts import KNOWN_CUSTOM_CALLS, TRAINIUM
from .kernel import DeviceKernel
from .table import KERNELS

_REGISTERED: list[DeviceKernel] = []


def register_kernel(kernel: DeviceKernel) -> None:
    """Let a kernel replace calls of its operator, in every compilation of this process that begins afterwards.

    Of the kernels that accept a call, the one that was registered first is taken, and those that ship come last.

    Raises:
        ConfigError: the name is taken, no target has the custom call, or no bar says how exact the kernel has to be.
    """
    if any(kernel.name == other.name for other in known_kernels()):
        raise ConfigError(f"there is a kernel {kernel.name!r} already: give this one another name")
    unknown = set(kernel.targets) - set(TRAINIUM)
    if unknown or not kernel.targets:
        raise ConfigError(f"kernel {kernel.name!r} is for {kernel.targets}: name some of {', '.join(TRAINIUM)}")
    if kernel.call_target not in KNOWN_CUSTOM_CALLS:
        raise ConfigError(
            f"kernel {kernel.name!r} calls {kernel.call_target!r}, which neuronx-cc would refuse with NCC_EVRF015: "
            "passes/target_facts.py lists the custom calls that it knows"
        )
    if kernel.operator.count(".") != 2:
        raise ConfigError(f"kernel {kernel.name!r}: {kernel.operator!r} is no overload, such as namespace.name.default")
    if not kernel.bars:
        raise ConfigError(f"kernel {kernel.name!r} has no bar: say for each dtype of a result how exact it has to be")
    _REGISTERED.append(kernel)


def known_kernels() -> tuple[DeviceKernel, ...]:
    """All kernels, in the order in which they are tried."""
    return (*_REGISTERED, *KERNELS)
