"""Which device programs run on."""

from __future__ import annotations

from ...errors import DeviceError
from ...settings import settings
from .base import Device
from .nrt.device import neuron_device
from .pjrt import PjrtDevice, host_device


def default_target() -> str:
    """Whose programs the device runs that the environment asks for: "host", or a Neuron core's.

    Raises:
        DeviceError: DEEPINFER_NEURON_DEVICE=neuron, and there is no runtime or no core.
    """
    return neuron_device().name if settings().device == "neuron" else PjrtDevice.name


def device_for(target: str) -> Device:
    """The calling thread's device for programs of a target.

    Raises:
        DeviceError: the environment does not ask for Neuron cores, or there are none.
        ConfigError: the programs are for IREE, which is not installed.
    """
    if target == PjrtDevice.name:
        return host_device()
    if target == "iree":
        # Imported here because it is an optional dependency.
        from .iree import iree_device

        return iree_device()
    if settings().device != "neuron":
        raise DeviceError(
            f"programs for {target} run on Neuron cores: set DEEPINFER_NEURON_DEVICE=neuron on a machine that has them"
        )
    return neuron_device()
