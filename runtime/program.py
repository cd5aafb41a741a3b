"""One compiled program with everything it reads bound to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .devices.base import Buffer, Device, Executable
from .plan import ReplayPlan
from .structure import builder


class BoundProgram:
    """A program for one batch size, its arguments in order, and where its results go.

    KV roots are shared by the programs of all batch sizes: each execution takes the current buffer of every
    root and leaves a new one over the same memory.
    """

    def __init__(
        self,
        replay: ReplayPlan,
        executable: Executable,
        device: Device,
        fixed: Mapping[tuple[str, str, torch.dtype], Buffer],
        root_names: Sequence[str],
    ):
        """``fixed`` holds the buffers of weights and slots by (kind, name, carrier)."""
        self.size = replay.batch_size
        self.executable = executable
        self._to_torch = device.to_torch
        self._build = builder(replay.result)
        root_of = {index: root_names.index(one.name) for index, one in enumerate(replay.inputs) if one.kind == "kv"}
        self._root_inputs = list(root_of.items())
        self._root_outputs = [(output, root_of[source]) for output, source in replay.aliases.items()]
        self._result_count = len(executable.artifact.outputs) - len(self._root_outputs)
        self._arguments: list[Any] = [fixed.get((one.kind, one.name, one.carrier)) for one in replay.inputs]

    def execute(self, roots: list[Buffer]) -> list[Buffer]:
        """Run the program, replace ``roots`` by their updated selves, and return the other outputs."""
        arguments = self._arguments
        for position, root in self._root_inputs:
            arguments[position] = roots[root]
        outputs = self.executable.execute(arguments)
        for position, root in self._root_outputs:
            roots[root] = outputs[position]
        return outputs[: self._result_count]

    def result(self, outputs: Sequence[Buffer], live: int) -> Any:
        """The caller's structure over the ``live`` leading rows of each output."""
        tensors: list[Tensor] = [self._to_torch(output) for output in outputs]
        if live != self.size:
            tensors = [tensor[:live] for tensor in tensors]
        return self._build(tensors)
