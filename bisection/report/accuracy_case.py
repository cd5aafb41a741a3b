"""A program that compiles and computes something else: its inputs, what is right, and how far off it may be."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from ...compiler.lowering.lower import LoweredModule
from ...compiler.targets.table import find_target
from ...errors import ArtifactError
from ...files import write_bytes
from ...runtime.artifacts import TensorType
from ...runtime.devices.choice import device_for
from ...runtime.devices.pjrt import aligned_empty
from ...runtime.dtype_names import name_of
from ..accuracy.expectation import Expectation

_SCHEMA = 1


@dataclass(frozen=True)
class AccuracyCase:
    """What a program is run on.

    Attributes:
        target: that it is compiled for and run on.
        inputs: of the program, in order.
        expected: the right outputs, in order; integers that hold the bits of floats as these floats.
        tolerance: of each output, how far each element may be from the right one; of its shape, float64. Not-a-number
            is right where it is expected, and nowhere else.
        aliases: output index -> index of the input whose memory it reuses.
        runtime_zero: whether the program takes one more int32 scalar, always zero.
        returned: output index -> dtype of an output that is not the dtype of what is expected.
    """

    target: str
    inputs: Sequence[Tensor]
    expected: Sequence[Tensor]
    tolerance: Sequence[Tensor]
    aliases: Mapping[int, int] = field(default_factory=dict)
    runtime_zero: bool = False
    returned: Mapping[int, torch.dtype] = field(default_factory=dict)

    def differences(self, module: bytes) -> list[str]:
        """Compile and run a StableHLO module; a line for each output that is off.

        Raises:
            CompileError: the compiler refuses it.
            ConfigError, DeviceError: there is no compiler or no device.
        """
        lowered = LoweredModule(module, _types(self.inputs), self._outputs(), dict(self.aliases), self.runtime_zero, {})
        device = device_for(self.target)
        executable = device.load(find_target(self.target).compile(lowered))
        reused = set(self.aliases.values())
        memory = [aligned_empty(one.shape, one.dtype).copy_(one) for one in self.inputs]
        buffers = [device.buffer(one, donatable=index in reused) for index, one in enumerate(memory)]
        actual = [device.to_torch(one).clone() for one in executable.execute(buffers)]
        carried = {index: self.expected[index].dtype for index in self.returned}
        return Expectation(self.expected, self.tolerance, carried).differences(actual)

    def _outputs(self) -> tuple[TensorType, ...]:
        return tuple(
            TensorType(self.returned.get(index, one.dtype), one.shape)
            for index, one in enumerate(_types(self.expected))
        )


def save_case(case: AccuracyCase, directory: Path) -> str:
    """Write the case into a file named by its hash; returns the name."""
    tensors = {
        f"{kind}.{index}": one.detach().contiguous().clone()
        for kind, several in (("input", case.inputs), ("expected", case.expected), ("tolerance", case.tolerance))
        for index, one in enumerate(several)
    }
    facts = {
        "schema": _SCHEMA,
        "target": case.target,
        "aliases": sorted(case.aliases.items()),
        "runtime_zero": case.runtime_zero,
        "returned": [[index, name_of(dtype)] for index, dtype in sorted(case.returned.items())],
        "counts": [len(case.inputs), len(case.expected)],
    }
    content = save(tensors, {"case": json.dumps(facts)})
    name = f"{hashlib.sha256(content).hexdigest()}.safetensors"
    write_bytes(directory / name, content)
    return name


def load_case(path: Path) -> AccuracyCase:
    """Read what ``save_case`` wrote; raises ArtifactError if it is missing, damaged or of another kind."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{path}: {error.strerror}; it belongs beside the script") from error
    if hashlib.sha256(content).hexdigest() != path.stem:
        raise ArtifactError(f"{path} is damaged: its sha256 is not its name")
    try:
        tensors = load(content)
        size = int.from_bytes(content[:8], "little")
        facts = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["case"])
        if facts["schema"] != _SCHEMA:
            raise ArtifactError(
                f"{path} has schema {facts['schema']}, expected {_SCHEMA}: use the version that wrote it"
            )
        (inputs, outputs), returned = facts["counts"], facts["returned"]
        return AccuracyCase(
            target=facts["target"],
            inputs=[tensors[f"input.{index}"] for index in range(inputs)],
            expected=[tensors[f"expected.{index}"] for index in range(outputs)],
            tolerance=[tensors[f"tolerance.{index}"] for index in range(outputs)],
            aliases={int(output): int(source) for output, source in facts["aliases"]},
            runtime_zero=facts["runtime_zero"],
            returned={int(index): TensorType.from_json({"dtype": name, "shape": ()}).dtype for index, name in returned},
        )
    except (AttributeError, KeyError, TypeError, ValueError, SafetensorError) as error:
        raise ArtifactError(f"{path} holds no accuracy case: {error}") from error


def _types(tensors: Sequence[Tensor]) -> tuple[TensorType, ...]:
    return tuple(TensorType(one.dtype, tuple(one.shape)) for one in tensors)
