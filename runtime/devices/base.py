"""What every device offers: executables, buffers that share memory with torch, and execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch

from ..artifacts import Artifact

Buffer = Any
"""A device buffer: opaque to callers, made and read by its device only."""


class Executable(Protocol):
    """A loaded program."""

    @property
    def artifact(self) -> Artifact:
        """The artifact it was loaded from."""
        ...

    def execute(self, buffers: Sequence[Buffer]) -> list[Buffer]:
        """Run with one buffer for each input, in order; returns one buffer for each output.

        An aliased input is consumed: its buffer must not be used again, and the output that took over its
        memory takes its place in the next call. The results may still be computing; ``to_torch`` waits.

        Raises:
            DeviceError: the device refused the call.
        """
        ...


class Device(Protocol):
    """Owned by one thread: the one that made it."""

    @property
    def name(self) -> str:
        """The target whose artifacts it loads."""
        ...

    def load(self, artifact: Artifact) -> Executable:
        """Load a program.

        Raises:
            DeviceError: the payload is damaged or was made for another machine.
        """
        ...

    def buffer(self, tensor: torch.Tensor, donatable: bool = False) -> Buffer:
        """A buffer on the tensor's own memory, which later writes through torch change too.

        Only a ``donatable`` buffer may be passed for an aliased input; the update lands in the tensor.

        Raises:
            DeviceError: the tensor is not contiguous, not on the CPU, or not aligned to 64 bytes.
        """
        ...

    def to_torch(self, buffer: Buffer) -> torch.Tensor:
        """A tensor on the buffer's memory, after waiting for it. Drop it before the buffer is consumed."""
        ...
