"""The stand-in program: a NEFF that carries the module, for a stand-in runtime to execute on the host."""

from __future__ import annotations

import re
from typing import Any

from arguments import Arguments
from deepinfer_neuron.files import write_bytes
from deepinfer_neuron.runtime.neff.descriptor import NeffTensor
from deepinfer_neuron.runtime.neff.writer import make_neff
from faults import fault
from jaxlib.mlir import ir

MEMBER = "module.mlir"
"""Member that holds the module as StableHLO bytecode."""

_OTHER_TARGET = {"trn1": "trn2", "trn2": "trn3", "trn3": "trn2"}


def write_program(module: ir.Module, bytecode: bytes, arguments: Arguments, version: str) -> None:
    """Write the NEFF that is asked for, or the damaged one if a fault is."""
    name, _ = fault()
    if name == "none":
        return
    content = make_neff(
        target=_OTHER_TARGET[arguments.target] if name == "foreign" else arguments.target,
        logical_core_size=arguments.logical_core_size,
        tensors=_tensors(module),
        members={MEMBER: bytecode},
        name=arguments.output.stem,
        build_version=version,
        compress="--enable-fast-loading-neuron-binaries" not in arguments.flags,
    )
    if name == "half":
        arguments.output.write_bytes(content[: len(content) // 2])
    else:
        write_bytes(arguments.output, content)


def _tensors(module: ir.Module) -> list[NeffTensor]:
    """Inputs and outputs of the entry function under the names that the compiler gives them by default."""
    (main,) = (one for one in module.body.operations if one.name.value == "main")
    types = {"input": main.type.inputs, "output": main.type.results}
    return [
        NeffTensor("sg00", f"{usage}{position}", usage, _bytes(type))
        for usage in ("input", "output")
        for position, type in enumerate(types[usage])
    ]


def _bytes(type: Any) -> int:
    """Bytes of a static tensor; booleans and types under 8 bits take one byte each."""
    tensor = ir.RankedTensorType(type)
    bits = int(re.search(r"\d+", str(tensor.element_type))[0])
    count = 1
    for size in tensor.shape:
        count *= size
    return count * max(bits // 8, 1)
