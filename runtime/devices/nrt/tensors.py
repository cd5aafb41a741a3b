"""Memory on a Neuron core, and named sets of it."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from ...artifacts import TensorType
from .library import ON_DEVICE
from .runtime import NrtRuntime


def byte_size(kind: TensorType) -> int:
    """Bytes of a tensor."""
    return torch.Size(kind.shape).numel() * kind.dtype.itemsize


@dataclass(eq=False)
class NrtTensor:
    """A tensor on a core. The device knows sizes only: type and shape are kept here.

    Attributes:
        runtime, core: where it is.
        kind: element type and shape.
        handle: what the runtime calls it; freed with this object.
        source: the tensor that it is a copy of, if there is one.
        version: of ``source`` when it was last copied.
    """

    runtime: NrtRuntime
    core: int
    kind: TensorType
    handle: ctypes.c_void_p
    source: Tensor | None = None
    version: int = -1

    @classmethod
    def allocate(cls, runtime: NrtRuntime, core: int, kind: TensorType) -> NrtTensor:
        """Memory that nothing was written to."""
        handle = runtime.make("nrt_tensor_allocate", ON_DEVICE, core, byte_size(kind), None, of=str(kind))
        made = cls(runtime, core, kind, handle)
        runtime.own(made, partial(_free, handle))
        return made

    def rows(self, first: int, count: int) -> NrtTensor:
        """Some leading rows, in the same memory."""
        kind = TensorType(self.kind.dtype, (count, *self.kind.shape[1:]))
        start = byte_size(TensorType(self.kind.dtype, (first, *self.kind.shape[1:])))
        name = f"rows {first} to {first + count} of {self.kind}"
        handle = self.runtime.make("nrt_tensor_allocate_slice", self.handle, start, byte_size(kind), None, of=name)
        made = NrtTensor(self.runtime, self.core, kind, handle)
        self.runtime.own(made, partial(_free, handle), self)
        return made

    def write(self, tensor: Tensor) -> None:
        """Copy a contiguous tensor on the CPU, of this type and shape, to the device."""
        self.runtime.call(
            "nrt_tensor_write", self.handle, tensor.data_ptr(), 0, byte_size(self.kind), of=str(self.kind)
        )

    def read(self, tensor: Tensor) -> Tensor:
        """Copy the device's memory into a contiguous tensor on the CPU and return that."""
        self.runtime.call("nrt_tensor_read", self.handle, tensor.data_ptr(), 0, byte_size(self.kind), of=str(self.kind))
        return tensor


class TensorSet:
    """Tensors by the names that a program gives them, prepared for any number of executions."""

    def __init__(self, runtime: NrtRuntime, tensors: Mapping[str, NrtTensor]):
        self.handle = runtime.make("nrt_allocate_tensor_set")
        runtime.own(self, partial(_destroy, self.handle), *tensors.values())
        for name, tensor in tensors.items():
            runtime.call("nrt_add_tensor_to_tensor_set", self.handle, name.encode(), tensor.handle, of=name)


def _free(handle: ctypes.c_void_p, library: Any) -> None:
    library.nrt_tensor_free(ctypes.byref(handle))


def _destroy(handle: ctypes.c_void_p, library: Any) -> None:
    library.nrt_destroy_tensor_set(ctypes.byref(handle))
