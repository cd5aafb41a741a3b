"""Compile graphs for the host, and run them on tensors that stay as they are."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

from torch import Tensor, fx

from ..compiler.lowering.lower import lower_graph
from ..compiler.lowering.options import Numerics
from ..compiler.programs.region_programs import RegionPrograms, TimedArtifact
from ..compiler.regions.cut import Region
from ..compiler.targets.host import HostTarget
from ..reporting import Count
from ..runtime.artifacts import Artifact
from ..runtime.devices.pjrt import host_device
from ..runtime.memory import is_shareable, shareable_copy
from ..runtime.processor import usable_processors


def compile_graphs(
    modules: Iterable[fx.GraphModule], numerics: Numerics, progress: Count = lambda done, total: None
) -> list[HostProgram]:
    """Compile in as many threads as there are processors, graphs that are lowered to equal modules once.

    Raises:
        LoweringError: an operator has no lowering.
        CompileError: the compiler refused a program.
    """
    target = HostTarget()
    options = target.lowering_options(numerics)
    compiling: dict[bytes, Future[Artifact]] = {}
    with ThreadPoolExecutor(max_workers=usable_processors()) as pool:
        # Lowering traces with FX, which works in one thread at a time.
        lowered = [lower_graph(module, options) for module in modules]
        for module in lowered:
            if module.bytecode not in compiling:
                compiling[module.bytecode] = pool.submit(target.compile, module)
        programs: dict[bytes, HostProgram] = {}
        for done, module in enumerate(lowered, 1):
            if module.bytecode not in programs:
                programs[module.bytecode] = HostProgram(compiling[module.bytecode].result())
            progress(done, len(lowered))
    return [programs[module.bytecode] for module in lowered]


def compile_regions(
    regions: Sequence[Region], numerics: Numerics, progress: Count = lambda done, total: None
) -> list[HostProgram]:
    """One program for each kind of region, as mode "regions" compiles them; raises what ``compile_graphs`` raises."""
    programs: dict[Future[TimedArtifact], HostProgram] = {}
    with ThreadPoolExecutor(max_workers=usable_processors()) as pool:
        compiling = RegionPrograms(HostTarget(), numerics, pool)
        started = [compiling.program(region) for region in regions]
        for done, program in enumerate(started, 1):
            if program not in programs:
                programs[program] = HostProgram(program.result().artifact)
            progress(done, len(started))
    return [programs[program] for program in started]


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
