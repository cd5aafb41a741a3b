"""Compile graphs for the host, and run them on tensors that stay as they are."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from torch import Tensor, fx

from ...runtime.artifacts import Artifact
from ...runtime.devices.pjrt import host_device
from ...runtime.memory import is_shareable, shareable_copy
from ..lowering.lower import lower_graph
from ..lowering.options import Numerics
from ..targets.host import HostTarget


@dataclass(frozen=True)
class ProgramSource:
    """A functional graph to compile; ``aliases`` maps an output to the input whose memory it takes over."""

    module: fx.GraphModule
    aliases: Mapping[int, int] = field(default_factory=dict)


def compile_programs(
    sources: Iterable[ProgramSource], numerics: Numerics, progress: Callable[[int], None] = lambda done: None
) -> list[HostProgram]:
    """Compile in as many threads as there are processors, equal modules once; ``progress`` counts sources.

    Raises:
        LoweringError: an operator has no lowering.
        CompileError: the compiler refused a program.
    """
    target = HostTarget()
    options = target.lowering_options(numerics)
    compiling: dict[bytes, Future[Artifact]] = {}
    programs: dict[bytes, HostProgram] = {}
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        # Lowering traces with FX, which works in one thread at a time.
        modules = [lower_graph(source.module, options, source.aliases) for source in sources]
        for module in modules:
            if module.bytecode not in compiling:
                compiling[module.bytecode] = pool.submit(target.compile, module)
        for done, module in enumerate(modules, 1):
            if module.bytecode not in programs:
                programs[module.bytecode] = HostProgram(compiling[module.bytecode].result())
            progress(done)
    return [programs[module.bytecode] for module in modules]


class HostProgram:
    """A loaded program as a function. It belongs to the thread that made it."""

    def __init__(self, artifact: Artifact) -> None:
        self._device = host_device()
        self._executable = self._device.load(artifact)
        self._updated = set(artifact.aliases.values())

    def __call__(self, inputs: Sequence[Tensor]) -> list[Tensor]:
        """Results in memory of their own; of an input that the program updates, a copy is updated."""
        memory = [
            tensor if is_shareable(tensor) and index not in self._updated else shareable_copy(tensor)
            for index, tensor in enumerate(inputs)
        ]
        buffers = [self._device.buffer(tensor, index in self._updated) for index, tensor in enumerate(memory)]
        return [self._device.to_torch(buffer).clone() for buffer in self._executable.execute(buffers)]
