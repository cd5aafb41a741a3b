"""Tells miscompiled candidates from good ones by running both programs on the host."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import torch
from deepinfer_neuron.bisection.probes.verdict import Signature, Verdict
from deepinfer_neuron.bisection.subjects.subject import Candidate
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.compiler.lowering.tensor import MLIR_NAMES
from deepinfer_neuron.runtime.devices.pjrt import client, compile_options, device_list, host_device
from deepinfer_neuron.runtime.memory import aligned_empty
from jaxlib.mlir import ir
from planted_compiler import PlantedCompiler

_DTYPES = {name: dtype for dtype, name in MLIR_NAMES.items()}


class MiscompileProbe:
    """A probe for plants that compile a module to something else; every bit of the results is compared.

    Inputs are drawn from a generator that starts anew for each candidate: floats around zero, integers from 0 to 3.
    """

    def __init__(self, compiler: PlantedCompiler):
        self._compiler = compiler

    def __call__(self, candidate: Candidate, cancel: threading.Event) -> Verdict:
        program = self._compiler.program(candidate.module)
        if program == candidate.module:
            return Verdict(None, 0.0)
        inputs = _inputs(candidate.module)
        results = zip(_run(candidate.module, inputs), _run(program, inputs), strict=True)
        same = all(torch.equal(right.view(torch.uint8), other.view(torch.uint8)) for right, other in results)
        return Verdict(None if same else Signature("different"), 0.0)


def _inputs(module: bytes) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    with shared_context():
        functions = ir.Module.parse(module).body.operations
        (main,) = (one for one in functions if one.name.value == "main")
        types = [ir.RankedTensorType(type) for type in main.type.inputs]
        kinds = [(_DTYPES[str(type.element_type)], list(type.shape)) for type in types]
    return [_tensor(dtype, shape, generator) for dtype, shape in kinds]


def _tensor(dtype: torch.dtype, shape: list[int], generator: torch.Generator) -> torch.Tensor:
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype)
    return torch.randint(0, 2 if dtype is torch.bool else 4, shape, generator=generator).to(dtype)


def _run(module: bytes, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """One run; copies, as a program may write to its inputs."""
    loaded: Any = client().compile_and_load(module, device_list(), compile_options())
    device = host_device()
    copies = [aligned_empty(tuple(tensor.shape), tensor.dtype).copy_(tensor) for tensor in inputs]
    buffers = [device.buffer(tensor, donatable=True) for tensor in copies]
    results = loaded.execute_sharded(buffers).disassemble_into_single_device_arrays()
    return [device.to_torch(result).reshape(-1).clone() for (result,) in results]
