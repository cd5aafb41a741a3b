"""A program loaded on a Neuron core."""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ....errors import ArtifactError, DeviceError
from ...artifacts import Artifact
from ...neff.reader import read_neff
from .library import TensorInfo, TensorInfoArray
from .runtime import NrtRuntime
from .tensors import NrtTensor, TensorSet, byte_size


class NrtModel:
    """A loaded program, unloaded with this object.

    The compiler calls a program's parameters ``input0``, ``input1``, ... and its results ``output0``, ... It drops
    parameters that nothing reads.

    Attributes:
        artifact: what it was loaded from.
        owner: the thread that loaded it.
        inputs, outputs: names of the parameters and results that the program has, by their position.
    """

    def __init__(self, runtime: NrtRuntime, core: int, artifact: Artifact):
        """Raises DeviceError if the program is not for this machine, or declares other tensors than the artifact."""
        _check(runtime, artifact)
        self.runtime = runtime
        self.core = core
        self.artifact = artifact
        self.owner = threading.get_ident()
        payload = artifact.payload
        self.handle = runtime.make("nrt_load", payload, len(payload), core, -1, of=f"a program for {artifact.target}")
        runtime.own(self, partial(_unload, self.handle))
        declared = self._declared()
        self.inputs = {index: f"input{index}" for index in range(len(artifact.inputs)) if f"input{index}" in declared}
        self.outputs = {index: f"output{index}" for index in range(len(artifact.outputs))}
        _check_sizes(artifact, declared)

    def _declared(self) -> dict[str, int]:
        """Bytes of every parameter and result by name."""
        info = ctypes.POINTER(TensorInfoArray)()
        self.runtime.call("nrt_get_model_tensor_info", self.handle, ctypes.byref(info))
        first = ctypes.addressof(info.contents) + TensorInfoArray.tensors.offset
        tensors = (TensorInfo * info.contents.tensor_count).from_address(first)
        declared = {one.name.decode(errors="replace"): one.size for one in tensors}
        self.runtime.call("nrt_free_model_tensor_info", info)
        return declared


class NrtExecutable:
    """A program at one place of a step.

    Tensor sets are prepared in the first execution and used again for as long as the buffers stay the same, which
    they do at one place of a step. Results stay in the same memory, too: the next execution overwrites them.
    """

    def __init__(self, model: NrtModel):
        self._model = model
        self._call: _Call | None = None

    @property
    def artifact(self) -> Artifact:
        """The artifact it was loaded from."""
        return self._model.artifact

    def at_place(self) -> NrtExecutable:
        """See ``Executable.at_place``."""
        return NrtExecutable(self._model)

    def execute(self, buffers: Sequence[NrtTensor]) -> list[NrtTensor]:
        """Run the program; see ``Executable.execute``. An aliased input is its output, and not consumed."""
        model = self._model
        if threading.get_ident() != model.owner:
            raise DeviceError("a program on a Neuron core belongs to the thread that loaded it: execute it there")
        call = self._call
        if call is None or call.buffers != buffers:
            call = self._call = _prepare(model, list(buffers))
        model.runtime.call("nrt_execute", model.handle, call.inputs.handle, call.outputs.handle)
        return call.results


@dataclass(frozen=True)
class _Call:
    """What an execution on these buffers needs; ``inputs`` and ``outputs`` are sets of them and of the results."""

    buffers: list[NrtTensor]
    results: list[NrtTensor]
    inputs: TensorSet
    outputs: TensorSet


def _prepare(model: NrtModel, buffers: list[NrtTensor]) -> _Call:
    _check_buffers(model, buffers)
    aliases = model.artifact.aliases
    results = [
        buffers[aliases[index]] if index in aliases else NrtTensor.allocate(model.runtime, model.core, kind)
        for index, kind in enumerate(model.artifact.outputs)
    ]
    inputs = TensorSet(model.runtime, {name: buffers[index] for index, name in model.inputs.items()})
    outputs = TensorSet(model.runtime, {name: results[index] for index, name in model.outputs.items()})
    return _Call(buffers, results, inputs, outputs)


def _check(runtime: NrtRuntime, artifact: Artifact) -> None:
    if artifact.target != runtime.target:
        raise DeviceError(
            f"the program was compiled for {artifact.target!r}, this machine runs {runtime.target!r} programs: "
            f"compile with target={runtime.target!r}"
        )
    if artifact.runtime_zero:
        raise DeviceError("programs in exact numerics repeat eager PyTorch on a CPU: compile with numerics='fast'")
    try:
        read_neff(
            artifact.payload,
            target=artifact.target,
            logical_core_size=runtime.logical_core_size,
            verify_hash=False,
        )
    except ArtifactError as error:
        raise DeviceError(f"the program cannot be loaded: {error}") from error


def _check_sizes(artifact: Artifact, declared: dict[str, int]) -> None:
    kinds = {f"input{index}": kind for index, kind in enumerate(artifact.inputs)}
    kinds |= {f"output{index}": kind for index, kind in enumerate(artifact.outputs)}
    unknown = sorted(declared.keys() - kinds.keys())
    missing = sorted(name for name in kinds.keys() - declared.keys() if name.startswith("output"))
    wrong = [
        f"{name} of {size} bytes for {kinds[name]}"
        for name, size in declared.items()
        if name in kinds and size != byte_size(kinds[name])
    ]
    if unknown or missing or wrong:
        raise DeviceError(
            f"the program's tensors are not those it was compiled with: unknown {unknown}, missing {missing}, "
            f"wrong {wrong}; compile it again"
        )


def _check_buffers(model: NrtModel, buffers: Sequence[NrtTensor]) -> None:
    kinds = model.artifact.inputs
    if len(buffers) != len(kinds):
        raise DeviceError(f"the program takes {len(kinds)} buffers, got {len(buffers)}")
    for index, (buffer, kind) in enumerate(zip(buffers, kinds, strict=True)):
        if buffer.kind != kind:
            raise DeviceError(f"input {index} of the program is {kind}, got a buffer of {buffer.kind}")
        if buffer.runtime is not model.runtime or buffer.core != model.core:
            raise DeviceError(
                f"input {index} is a buffer of another core: programs read the memory of their own core only, make "
                "buffers and executables with one device"
            )


def _unload(handle: ctypes.c_void_p, library: Any) -> None:
    library.nrt_unload(handle)
