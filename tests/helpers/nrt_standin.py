"""Builds the stand-in for libnrt, gives it programs that the host executes, and compiles programs for it."""

from __future__ import annotations

import ctypes
import io
import json
import subprocess
import tarfile
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.lowering.lower import LoweredModule
from deepinfer_neuron.compiler.lowering.tensor import MLIR_NAMES
from deepinfer_neuron.runtime.artifacts import Artifact, TensorType
from deepinfer_neuron.runtime.devices.nrt.device import NrtDevice
from deepinfer_neuron.runtime.devices.nrt.status import Status
from deepinfer_neuron.runtime.devices.nrt.tensors import byte_size
from deepinfer_neuron.runtime.devices.pjrt import PjrtExecutable, host_device
from deepinfer_neuron.runtime.devices.pjrt_client import client, compile_options, device_list
from deepinfer_neuron.runtime.memory import aligned_empty
from deepinfer_neuron.runtime.neff.descriptor import NeffTensor
from deepinfer_neuron.runtime.neff.header import HEADER_SIZE
from deepinfer_neuron.runtime.neff.writer import make_neff
from deepinfer_neuron.runtime.plan import DecodePlan
from deepinfer_neuron.runtime.runner import DecodeRunner
from deepinfer_neuron.runtime.weights import BoundTensors
from device_shapes import HostInDeviceShape
from jaxlib.mlir import ir

SOURCE = Path(__file__).parents[1] / "standins" / "libnrt_standin.c"
MODULE = "module.mlir"
"""Member of a stand-in NEFF that holds the program as StableHLO bytecode."""

Fallback = Callable[..., Any] | None
KINDS = ("tensors", "sets", "models")
TRN2 = 5
_INVALID = 2
_LOAD = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t)
_POINTERS = ctypes.POINTER(ctypes.c_void_p)
_EXECUTE = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, _POINTERS, _POINTERS)
_DTYPES = {name: dtype for dtype, name in MLIR_NAMES.items()}


class StandinTarget(HostInDeviceShape):
    """Compiles for "trn2": a NEFF that carries the module."""

    def compile(self, module: LoweredModule) -> Artifact:
        return Artifact(
            target=self.name,
            payload=standin_neff(module),
            inputs=module.inputs,
            outputs=module.outputs,
            aliases=module.aliases,
            runtime_zero=module.runtime_zero,
            fingerprint="stand-in",
        )


@dataclass(frozen=True)
class CompiledStep:
    """A plan and its programs for the core."""

    plan: DecodePlan
    artifacts: Mapping[str, Artifact]

    @classmethod
    def of(cls, runner: DecodeRunner) -> CompiledStep:
        """What a runner runs."""
        return cls(runner.plan, {digest: one.artifact for digest, one in runner.executables.items()})

    def on_core(self, device: NrtDevice, tensors: Any, fallback: Fallback = None) -> DecodeRunner:
        """A runner over a module, or over a mapping of names to tensors, on a core."""
        executables = {digest: device.load(artifact) for digest, artifact in self.artifacts.items()}
        return DecodeRunner(self.plan, executables, BoundTensors(tensors, self.plan.tensor_names), device, fallback)

    def on_host(self, standin: Standin, tensors: Any, fallback: Fallback = None) -> DecodeRunner:
        """A runner of the same modules on the host."""
        executables = {digest: standin.on_host(artifact) for digest, artifact in self.artifacts.items()}
        tensors = BoundTensors(tensors, self.plan.tensor_names)
        return DecodeRunner(self.plan, executables, tensors, host_device(), fallback)


def standin_neff(module: LoweredModule, **changes: Any) -> bytes:
    """A NEFF for trn2 and logical cores of two physical ones that declares the module's tensors."""
    kinds = {"input": module.inputs, "output": module.outputs}
    tensors = [
        NeffTensor("sg00", f"{usage}{number}", usage, byte_size(kind))
        for usage in ("input", "output")
        for number, kind in enumerate(kinds[usage])
    ]
    arguments = {
        "target": "trn2",
        "logical_core_size": 2,
        "tensors": tensors,
        "members": {MODULE: module.bytecode},
    }
    return make_neff(**(arguments | changes))


@dataclass(frozen=True)
class Program:
    """A program's types, and what the host made of it."""

    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    loaded: Any


class Standin:
    """The stand-in library of this process, and what it was given."""

    def __init__(self, directory: Path):
        self.path = directory / "libnrt.so.1"
        flags = ["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-shared", "-fPIC"]
        subprocess.run(["cc", *flags, "-o", str(self.path), str(SOURCE)], check=True)
        self.library = ctypes.CDLL(str(self.path))
        self.executions = 0
        self._programs: dict[int, Program] = {}
        self._compiled: dict[bytes, Program] = {}
        self._callbacks = _LOAD(self._load), _EXECUTE(self._execute)
        self.library.nrt_standin_programs(*self._callbacks)
        self.library.nrt_standin_declare.argtypes = (ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t)

    def machine(self, family: int = TRN2, cores: int = 4, physical_cores: int = 2) -> None:
        """What the next runtime finds."""
        self.library.nrt_standin_machine(family, cores, physical_cores)

    def fail(self, function: str, status: Status | int, after: int = 0) -> None:
        """Have a function answer with a status, once, after ``after`` calls; not at all if the name is empty."""
        number = status.number if isinstance(status, Status) else status
        self.library.nrt_standin_fail(function.encode(), number, after)

    def alive(self) -> dict[str, int]:
        """How many objects of each kind are allocated."""
        return {kind: self.library.nrt_standin_alive(number) for number, kind in enumerate(KINDS)}

    def notes(self) -> list[str]:
        """Broken rules since the last call."""
        text = ctypes.create_string_buffer(1 << 16)
        self.library.nrt_standin_notes(text, ctypes.c_size_t(len(text)))
        return text.value.decode().splitlines()

    def on_host(self, artifact: Artifact) -> PjrtExecutable:
        """The program of a stand-in NEFF on the host, without the Neuron runtime."""
        program = self._program(_members(artifact.payload)[MODULE])
        return PjrtExecutable(artifact, program.loaded, (), threading.get_ident())

    def _load(self, number: int, content: int, size: int) -> int:
        members = _members(ctypes.string_at(content, size))
        for name, variable in json.loads(members["sg00/def.json"])["var"].items():
            self.library.nrt_standin_declare(name.encode(), variable["type"] == "output", variable["size"])
        if MODULE not in members:
            return _INVALID
        self._programs[number] = self._program(members[MODULE])
        return 0

    def _program(self, bytecode: bytes) -> Program:
        if bytecode not in self._compiled:
            self._compiled[bytecode] = _compile(bytecode)
        return self._compiled[bytecode]

    def _execute(self, number: int, inputs: Any, outputs: Any) -> int:
        self.executions += 1
        program, device = self._programs[number], host_device()
        tensors = [aligned_empty(kind.shape, kind.dtype) for kind in program.inputs]
        for tensor, source in zip(tensors, inputs, strict=False):
            ctypes.memmove(tensor.data_ptr(), source, tensor.nbytes)
        results = program.loaded.execute_sharded([device.buffer(tensor, donatable=True) for tensor in tensors])
        for place, (result,) in enumerate(results.disassemble_into_single_device_arrays()):
            tensor = device.to_torch(result)
            ctypes.memmove(outputs[place], tensor.data_ptr(), tensor.nbytes)
        return 0


def _members(neff: bytes) -> dict[str, bytes]:
    with tarfile.open(fileobj=io.BytesIO(neff[HEADER_SIZE:]), mode="r:*") as files:
        return {one.name: files.extractfile(one).read() for one in files.getmembers() if one.isfile()}


def _compile(bytecode: bytes) -> Program:
    loaded = client().compile_and_load(bytecode, device_list(), compile_options())
    with shared_context():
        module = ir.Module.parse(bytecode)
        (main,) = (one for one in module.body.operations if one.name.value == "main")
        inputs, outputs = (tuple(map(_kind, types)) for types in (main.type.inputs, main.type.results))
    return Program(inputs, outputs, loaded)


def _kind(type: Any) -> TensorType:
    tensor = ir.RankedTensorType(type)
    return TensorType(_DTYPES[str(tensor.element_type)], tuple(tensor.shape))
