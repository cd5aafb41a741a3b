"""What every device offers: executables, buffers for what they read and update, and execution."""

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

    def at_place(self) -> Executable:
        """The same program for one place of a step, where most executions are given the buffers of the last one.

        What a device prepares for an execution it keeps for each place.
        """
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

    @property
    def loads_in_any_thread(self) -> bool:
        """Whether ``load`` may be called from several threads, which then hand the executables to the owner."""
        ...

    @property
    def has_own_memory(self) -> bool:
        """Whether buffers are memory of the device. If not, they are the memory of the tensors they are made of."""
        ...

    def load(self, artifact: Artifact) -> Executable:
        """Load a program.

        Raises:
            DeviceError: the payload is damaged or was made for another machine.
        """
        ...

    def buffer(self, tensor: torch.Tensor, donatable: bool = False) -> Buffer:
        """A buffer with the tensor's values, which keeps the tensor.

        Where memory is shared, later writes through torch change the buffer and updates land in the tensor. Else the
        buffer is a copy, and ``refresh`` and ``fetch`` bring one up to date with the other. Only a ``donatable``
        buffer may be passed for an aliased input.

        Raises:
            DeviceError: the tensor is not contiguous, not on the CPU, or, for shared memory, not aligned to 64 bytes.
        """
        ...

    def rows(self, buffer: Buffer, first: int, count: int) -> Buffer:
        """A donatable buffer for ``count`` leading rows of a buffer, in the same memory."""
        ...

    def is_outdated(self, buffer: Buffer) -> bool:
        """Whether torch wrote to the tensor of a buffer that does not share its memory, and it was not refreshed."""
        ...

    def refresh(self, buffer: Buffer) -> None:
        """Bring a buffer made by ``buffer`` up to date with its tensor."""
        ...

    def fetch(self, buffer: Buffer) -> None:
        """Bring the tensor of a buffer made by ``buffer`` up to date with the buffer."""
        ...

    def to_torch(self, buffer: Buffer) -> torch.Tensor:
        """The buffer's values, after waiting for them, shared or copied. Drop it before the buffer is consumed."""
        ...
