"""A compiled graph as a function of torch tensors."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.utils import counters

from ...errors import CompileError, InputError
from ...passes.carrier import carry
from ...runtime.artifacts import Artifact
from ...runtime.devices.choice import device_for
from ...runtime.memory import is_shareable, shareable_copy
from .result_memory import ResultMemory

_COMPUTED = object()


class CompiledFunction:
    """Calls a program with tensors of any layout.

    Inputs in memory that the device can use are read, and updated, in place; others through a copy that is
    copied back. Results lie in memory as eager PyTorch would lay them. Each calling thread loads the program once.

    Args:
        artifact: the program.
        carriers: input index -> dtype that the program takes the tensor's bits as.
        layouts: a tensor with the dtype and layout of each result; a number or None stands for itself.
        offsets: input index -> where the tensor has to begin in its memory, in elements.
    """

    def __init__(
        self,
        artifact: Artifact,
        carriers: Mapping[int, torch.dtype],
        layouts: Sequence[Tensor | float | None],
        offsets: Mapping[int, int] | None = None,
    ):
        self._boxed_call = True  # AOTAutograd then passes the inputs as one list, which the callee empties
        self._artifact = artifact
        self._carriers = dict(carriers)
        self._offsets = dict(offsets or {})
        computed = [layout for layout in layouts if isinstance(layout, Tensor)]
        self._memory = ResultMemory(computed)
        self._dtypes = [layout.dtype for layout in computed]
        self._results = [_COMPUTED if isinstance(layout, Tensor) else layout for layout in layouts]
        self._updated = set(artifact.aliases.values())
        self._loaded = threading.local()

    def __call__(self, arguments: list[Tensor]) -> list[Any]:
        """Run the program on ``arguments``.

        Raises:
            CompileError: a tensor is not on the CPU.
            InputError: an input does not begin where a view by strides counts from.
        """
        for index, offset in self._offsets.items():
            _check_offset(arguments[index], offset)
        tensors = [
            _within(_real(tensor), one.shape) for tensor, one in zip(arguments, self._artifact.inputs, strict=True)
        ]
        arguments.clear()
        device, execute = self._load()
        shared = [tensor if is_shareable(tensor) else _copy(tensor) for tensor in tensors]
        buffers = [
            device.buffer(tensor.detach().view(self._carriers.get(index, tensor.dtype)), index in self._updated)
            for index, tensor in enumerate(shared)
        ]
        outputs = [
            _result(device.to_torch(buffer), dtype)
            for buffer, dtype in zip(execute(buffers), self._dtypes, strict=False)
        ]
        for index in self._updated:
            if shared[index] is not tensors[index]:
                tensors[index].copy_(shared[index])
        computed = iter(self._memory.arrange(outputs))
        counters["deepinfer_neuron"]["programs_run"] += 1
        return [next(computed) if result is _COMPUTED else result for result in self._results]

    def _load(self) -> Any:
        if not hasattr(self._loaded, "program"):
            device = device_for(self._artifact.target)
            self._loaded.program = device, device.load(self._artifact).execute
        return self._loaded.program


def _within(tensor: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The leading elements of a flat input: AOTAutograd traces with the part of a storage that its views reach."""
    shorter = tensor.dim() == len(shape) == 1 and shape[0] < tensor.shape[0]
    return tensor[: shape[0]] if shorter else tensor


def _check_offset(tensor: Tensor, offset: int) -> None:
    if tensor.storage_offset() != offset:
        raise InputError(
            f"an input of shape {list(tensor.shape)} begins at element {tensor.storage_offset()} of its memory: the "
            f"program, which has views by strides, was compiled for one that begins at {offset}; clone the input"
        )


def _real(tensor: Tensor) -> Tensor:
    """A complex tensor as programs take it: with real and imaginary parts in a last dimension."""
    return torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor


def _result(output: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.view_as_complex(output) if dtype.is_complex else carry(output, dtype)


def _copy(tensor: Tensor) -> Tensor:
    if tensor.device.type != "cpu":
        raise CompileError(f"a graph input is on {tensor.device}: the host target takes tensors on the CPU")
    return shareable_copy(tensor)
