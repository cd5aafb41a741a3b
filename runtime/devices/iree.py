"""The CPU by IREE: programs compiled by iree-compile, run in this process by its runtime.

An aliased input is the storage of its output (IREE's ABI calls the attribute ``iree.abi.output``), so updates land in
the tensor that the buffer was made of.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from ...errors import ConfigError, DeviceError
from ..artifacts import Artifact
from ..memory import check_shareable
from ..processor import processor_digest

try:
    import iree.runtime as iree_runtime
except ImportError as error:
    raise ConfigError("programs for iree need its runtime: pip install 'deepinfer-neuron[iree]'") from error

_DRIVER = "local-task"
_ENTRY = "main"
_DLPACK_CPU = 1


@dataclass(frozen=True, slots=True)
class IreeBuffer:
    """A view of memory and what has to live as long.

    ``tensor`` is the torch memory that is viewed, None for memory of IREE's own. The fields are released in their
    order: IREE's memory must not outlive its device.
    """

    view: Any
    tensor: torch.Tensor | None
    donatable: bool
    device: Any


class IreeExecutable:
    """A program loaded by IREE."""

    def __init__(self, artifact: Artifact, context: Any, entry: Any, device: Any, owner: int):
        self._artifact = artifact
        self._context = context
        self._entry = entry
        self._device = device
        self._owner = owner

    @property
    def artifact(self) -> Artifact:
        """The artifact it was loaded from."""
        return self._artifact

    def at_place(self) -> IreeExecutable:
        """See ``Executable.at_place``; there is nothing to prepare."""
        return self

    def execute(self, buffers: Sequence[IreeBuffer]) -> list[IreeBuffer]:
        """Run the program; see ``Executable.execute``. The results are computed when this returns."""
        if threading.get_ident() != self._owner:
            raise DeviceError("the IREE device belongs to the thread that made it: execute from that thread")
        aliases = self._artifact.aliases
        kept = [source for source in aliases.values() if source < len(buffers) and not buffers[source].donatable]
        if kept:
            raise DeviceError(f"buffers {kept} are updated by the program: make them with donatable=True")
        arguments = iree_runtime.VmVariantList(len(buffers))
        for one in buffers:
            arguments.push_ref(one.view)
        results = iree_runtime.VmVariantList(len(self._artifact.outputs))
        try:
            self._context.invoke(self._entry, arguments, results)
        except Exception as error:
            raise DeviceError(f"execution failed: {error}") from error
        return [
            buffers[aliases[index]] if index in aliases else self._made(results, index)
            for index in range(len(self._artifact.outputs))
        ]

    def _made(self, results: Any, index: int) -> IreeBuffer:
        view = results.get_as_object(index, iree_runtime.HalBufferView)
        return IreeBuffer(view, tensor=None, donatable=True, device=self._device)


class IreeDevice:
    """The CPU, through one IREE device for the process."""

    name = "iree"
    has_own_memory = False
    loads_in_any_thread = False

    def __init__(self) -> None:
        self._owner = threading.get_ident()
        self._device = _only_device()

    def load(self, artifact: Artifact) -> IreeExecutable:
        """Load a program; see ``Device.load``."""
        if artifact.target != self.name:
            raise DeviceError(f"the program was compiled for {artifact.target!r}; the IREE device runs 'iree' programs")
        if not artifact.fingerprint.endswith(machine_fingerprint()):
            raise DeviceError(
                f"the program was compiled for [{artifact.fingerprint}], this machine is [{machine_fingerprint()}]: "
                "compile it again here"
            )
        try:
            module = iree_runtime.VmModule.copy_buffer(_instance(), artifact.payload)
            context = iree_runtime.VmContext(_instance(), modules=[_hal_module(), module])
            entry = module.lookup_function(_ENTRY)
        except Exception as error:
            raise DeviceError(f"the program's payload is damaged: {error}; compile it again") from error
        return IreeExecutable(artifact, context, entry, self._device, self._owner)

    def buffer(self, tensor: torch.Tensor, donatable: bool = False) -> IreeBuffer:
        """A buffer on the tensor's memory; see ``Device.buffer``."""
        check_shareable(tensor)
        plain = tensor.detach()
        return IreeBuffer(self._device.from_dlpack_capsule(to_dlpack(plain)), plain, donatable, self._device)

    def rows(self, buffer: IreeBuffer, first: int, count: int) -> IreeBuffer:
        """Some rows of a buffer; see ``Device.rows``."""
        return self.buffer(self.to_torch(buffer).narrow(0, first, count), donatable=True)

    def is_outdated(self, buffer: IreeBuffer) -> bool:
        """Never: memory is shared."""
        return False

    def refresh(self, buffer: IreeBuffer) -> None:
        """Nothing: memory is shared."""

    def fetch(self, buffer: IreeBuffer) -> None:
        """Nothing: memory is shared."""

    def to_torch(self, buffer: IreeBuffer) -> torch.Tensor:
        """The tensor that the buffer was made of, or else a copy: nothing keeps IREE's device for a mere tensor."""
        if buffer.tensor is not None:
            return buffer.tensor
        return from_dlpack(self._device.create_dlpack_capsule(buffer.view, _DLPACK_CPU, 0)).clone()


def machine_fingerprint() -> str:
    """What a program depends on of this machine: the end of its artifact's fingerprint."""
    return f"cpu {processor_digest()}"


_OF_THREAD = threading.local()


def iree_device() -> IreeDevice:
    """The calling thread's device, made when the thread first asks for it."""
    if not hasattr(_OF_THREAD, "device"):
        _OF_THREAD.device = IreeDevice()
    return _OF_THREAD.device


@cache
def _instance() -> Any:
    return iree_runtime.VmInstance()


@cache
def _only_device() -> Any:
    return iree_runtime.get_driver(_DRIVER).create_default_device()


@cache
def _hal_module() -> Any:
    return iree_runtime.create_hal_module(_instance(), _only_device())
