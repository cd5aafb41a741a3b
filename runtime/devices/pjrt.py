"""The host device: programs compiled by XLA for the CPU, run in this process by jaxlib's PJRT client."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import jaxlib.version
import torch
from jaxlib import _jax  # pyright: ignore[reportAttributeAccessIssue]
from torch.utils.dlpack import from_dlpack, to_dlpack

from ...errors import DeviceError
from ..artifacts import Artifact
from ..memory import aligned_empty, check_shareable
from .jax_stand_in import call_without_jax
from .pjrt_client import client, compile_options, device_list, machine_fingerprint


class PjrtExecutable:
    """A program loaded on the host."""

    def __init__(self, artifact: Artifact, loaded: Any, zero: tuple[Any, ...], owner: int):
        self._artifact = artifact
        self._execute = loaded.execute_sharded
        self._zero = zero
        self._owner = owner
        self._hlo_text = loaded.get_hlo_text

    @property
    def artifact(self) -> Artifact:
        """The artifact it was loaded from."""
        return self._artifact

    def at_place(self) -> PjrtExecutable:
        """See ``Executable.at_place``; there is nothing to prepare."""
        return self

    def execute(self, buffers: Sequence[Any]) -> list[Any]:
        """Run the program; see ``Executable.execute``."""
        if threading.get_ident() != self._owner:
            raise DeviceError("the host device belongs to the thread that made it: execute from that thread")
        try:
            results = self._execute([*buffers, *self._zero])
        except Exception as error:
            raise DeviceError(self._explain(buffers, error)) from error
        return [shards[0] for shards in call_without_jax(results.disassemble_into_single_device_arrays)]

    def optimized_hlo(self) -> str:
        """The program after XLA's passes, as text: what it fuses, copies and calls."""
        return self._hlo_text()

    def _explain(self, buffers: Sequence[Any], error: Exception) -> str:
        expected = len(self._artifact.inputs)
        if len(buffers) != expected:
            return f"the program takes {expected} buffers, got {len(buffers)}"
        consumed = [index for index, buffer in enumerate(buffers) if buffer.is_deleted()]
        if consumed:
            return f"buffers {consumed} were consumed by an earlier call: pass the output that took over their memory"
        return f"execution failed: {error}"


class PjrtDevice:
    """The CPU, through one PJRT client for the process."""

    name = "host"
    has_own_memory = False
    loads_in_any_thread = True

    def __init__(self) -> None:
        self._owner = threading.get_ident()
        self._device = client().local_devices()[0]
        self._zero = self.buffer(aligned_empty((), torch.int32).zero_())
        _check_donation(self)

    def load(self, artifact: Artifact) -> PjrtExecutable:
        """Load a program; see ``Device.load``."""
        if artifact.target != self.name:
            raise DeviceError(f"the program was compiled for {artifact.target!r}; the host device runs 'host' programs")
        if artifact.fingerprint != machine_fingerprint():
            raise DeviceError(
                f"the program was compiled for [{artifact.fingerprint}], this machine is [{machine_fingerprint()}]: "
                "compile it again here"
            )
        try:
            loaded = client().deserialize_executable(artifact.payload, device_list(), compile_options())
        except Exception as error:
            raise DeviceError(f"the program's payload is damaged: {error}; compile it again") from error
        zero = (self._zero,) if artifact.runtime_zero else ()
        return PjrtExecutable(artifact, loaded, zero, self._owner)

    def buffer(self, tensor: torch.Tensor, donatable: bool = False) -> Any:
        """A buffer on the tensor's memory; see ``Device.buffer``."""
        check_shareable(tensor)
        # Despite its name, copy=True makes jaxlib take the memory as it is and allow donation; None forbids donation.
        copy = True if donatable else None
        capsule = to_dlpack(tensor.detach())
        return call_without_jax(_jax.dlpack_managed_tensor_to_buffer, capsule, self._device, None, copy=copy)

    def rows(self, buffer: Any, first: int, count: int) -> Any:
        """Some rows of a buffer; see ``Device.rows``."""
        return self.buffer(self.to_torch(buffer).narrow(0, first, count), donatable=True)

    def is_outdated(self, buffer: Any) -> bool:
        """Never: memory is shared."""
        return False

    def refresh(self, buffer: Any) -> None:
        """Nothing: memory is shared."""

    def fetch(self, buffer: Any) -> None:
        """Nothing: memory is shared."""

    def to_torch(self, buffer: Any) -> torch.Tensor:
        """A tensor on the buffer's memory; see ``Device.to_torch``."""
        buffer.block_until_ready()
        return from_dlpack(_jax.buffer_to_dlpack_managed_tensor(buffer))


_OF_THREAD = threading.local()


def host_device() -> PjrtDevice:
    """The calling thread's device, made and tested when the thread first asks for it."""
    if not hasattr(_OF_THREAD, "device"):
        _OF_THREAD.device = PjrtDevice()
    return _OF_THREAD.device


_DONATING_PROGRAM = """
func.func public @main(%x: tensor<64xi32> {tf.aliasing_output = 0 : i32}) -> tensor<64xi32> {
  %0 = stablehlo.add %x, %x : tensor<64xi32>
  return %0 : tensor<64xi32>
}
"""


def _check_donation(device: PjrtDevice) -> None:
    """Prove that an aliased input is updated in the tensor's own memory: jaxlib does not promise it.

    Raises:
        DeviceError: this jaxlib copies instead.
    """
    tensor = aligned_empty((64,), torch.int32).fill_(1)
    program = client().compile_and_load(_DONATING_PROGRAM.encode(), device_list(), compile_options())
    (result,) = program.execute([device.buffer(tensor, donatable=True)])
    result.block_until_ready()
    if result.unsafe_buffer_pointer() != tensor.data_ptr() or not bool((tensor == 2).all()):
        raise DeviceError(
            f"jaxlib {jaxlib.version.__version__} does not update torch memory in place: "
            "install the version that this package is pinned to (see pyproject.toml)"
        )
