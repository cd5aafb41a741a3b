"""The device for one logical Neuron core."""

from __future__ import annotations

import os
import threading
from typing import Any

import torch
from torch import Tensor

from ....errors import ConfigError, DeviceError
from ....settings import Settings, settings
from ...artifacts import Artifact, TensorType
from .executable import NrtExecutable, NrtModel
from .runtime import NrtRuntime, open_runtime
from .tensors import NrtTensor

VISIBLE_CORES = "NEURON_RT_VISIBLE_CORES"


class NrtDevice:
    """One logical core. Buffers are memory of the device, copies of the tensors they are made of."""

    has_own_memory = True
    loads_in_any_thread = False

    def __init__(self, runtime: NrtRuntime, core: int = 0):
        """``core`` counts the cores that this process sees; raises DeviceError if there are fewer."""
        if not 0 <= core < runtime.core_count:
            raise DeviceError(f"core {core}: this process sees {runtime.core_count}, numbered from 0")
        self._runtime = runtime
        self._core = core
        self._owner = threading.get_ident()

    @property
    def name(self) -> str:
        """``trn1``, ``trn2`` or ``trn3``."""
        return self._runtime.target

    @property
    def runtime(self) -> NrtRuntime:
        """The runtime that the core belongs to; closing it ends the device."""
        return self._runtime

    def load(self, artifact: Artifact) -> NrtExecutable:
        """Load a program; see ``Device.load``."""
        self._check_thread()
        return NrtExecutable(NrtModel(self._runtime, self._core, artifact))

    def buffer(self, tensor: Tensor, donatable: bool = False) -> NrtTensor:
        """A copy of the tensor; see ``Device.buffer``. Every one may be passed for an aliased input."""
        self._check_thread()
        if tensor.device.type != "cpu" or not tensor.is_contiguous() or tensor.is_neg():
            raise DeviceError(
                f"a tensor of shape {list(tensor.shape)}, strides {list(tensor.stride())}, on {tensor.device} cannot "
                "be copied to a Neuron core: it must be contiguous and on the CPU"
            )
        made = NrtTensor.allocate(self._runtime, self._core, TensorType(tensor.dtype, tuple(tensor.shape)))
        made.source = tensor.detach()
        self.refresh(made)
        return made

    def rows(self, buffer: NrtTensor, first: int, count: int) -> NrtTensor:
        """Some rows of a buffer; see ``Device.rows``."""
        return buffer.rows(first, count)

    def is_outdated(self, buffer: NrtTensor) -> bool:
        """See ``Device.is_outdated``."""
        return buffer.source is not None and buffer.source._version != buffer.version

    def refresh(self, buffer: NrtTensor) -> None:
        """Copy the tensor again; see ``Device.refresh``."""
        source = _source_of(buffer)
        buffer.write(source)
        buffer.version = source._version

    def fetch(self, buffer: NrtTensor) -> None:
        """Copy the buffer back to its tensor; see ``Device.fetch``."""
        source = _source_of(buffer)
        source.copy_(self.to_torch(buffer))
        buffer.version = source._version

    def to_torch(self, buffer: NrtTensor) -> Tensor:
        """A copy of the buffer."""
        return buffer.read(torch.empty(buffer.kind.shape, dtype=buffer.kind.dtype))

    def _check_thread(self) -> None:
        if threading.get_ident() != self._owner:
            raise DeviceError("a Neuron device belongs to the thread that made it: make one per thread")


def _source_of(buffer: NrtTensor) -> Tensor:
    if buffer.source is None:
        raise DeviceError(f"a buffer of {buffer.kind} that a program made, or a part of one, has no tensor of its own")
    return buffer.source


def choose_core(asked: Settings, count: int) -> int:
    """The core of this process among the ``count`` that it sees.

    A launcher may give each process its own cores in NEURON_RT_VISIBLE_CORES, of which the first is used, or the same
    list to all, of which each takes the one of its rank.

    Raises:
        ConfigError: there is no core for the rank.
    """
    rank = asked.local_rank
    if not asked.visible_cores or rank is None or count == 1:
        return 0
    if rank >= count:
        raise ConfigError(
            f"DEEPINFER_NEURON_LOCAL_RANK={rank}: {VISIBLE_CORES}={asked.visible_cores} has {count} cores, one a "
            "process; name more cores or start fewer processes"
        )
    return rank


_OF_THREAD = threading.local()


def neuron_device() -> NrtDevice:
    """The calling thread's device, on the core that the environment gives this process.

    Without NEURON_RT_VISIBLE_CORES a process takes the core of its rank, before the runtime reserves all of them.

    Raises:
        DeviceError: no runtime, or no core.
        ConfigError: there is no core for the rank.
    """
    device: Any = getattr(_OF_THREAD, "device", None)
    if device is None or not device.runtime.is_open:
        asked = settings()
        if not asked.visible_cores and asked.local_rank is not None:
            os.environ[VISIBLE_CORES] = str(asked.local_rank)
        runtime = open_runtime(asked.neuron_library)
        device = _OF_THREAD.device = NrtDevice(runtime, choose_core(asked, runtime.core_count))
    return device
