"""A decode step for a ladder of batch sizes: captured, passed and cut into regions, each of which is then compiled."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

import torch
from torch import nn

from ...errors import CaptureError
from ...passes.float8 import FORMATS
from ...runtime.plan import GraphMode, ReplayPlan
from ...runtime.slots import SlotSpec
from ...runtime.stats import CompileReport
from ..capture.capture import CapturedGraph, capture
from ..regions.cut import CutGraph, Region
from ..regions.cut_graph import cut_graph
from ..regions.root_partition import RootPartition, Rows
from ..targets.base import Target
from .pass_captured import pass_captured
from .pipeline import PassedGraph, count_calls
from .step_plan import plan_step

Started = TypeVar("Started")
"""What stands for the program of a region from when it is started until it is compiled."""


class NamedProgram(Protocol):
    """What a step's plan and report say of a program."""

    @property
    def name(self) -> str:
        """What plans call it."""
        ...

    @property
    def seconds(self) -> float:
        """Seconds that it took to compile it or to find it."""
        ...

    @property
    def is_stored(self) -> bool:
        """Whether it was found in the store."""
        ...


@dataclass(frozen=True)
class CutStep:
    """One batch size, cut into regions; ``capture_s`` are the seconds of the capture."""

    size: int
    mode: GraphMode
    graph: CapturedGraph
    passed: PassedGraph
    unsliced: CutGraph
    capture_s: float

    @property
    def input_names(self) -> list[str]:
        """Qualified names of the step's inputs."""
        return [one.qualified_name for one in self.graph.inputs]


@dataclass(frozen=True)
class StartedStep(Generic[Started]):
    """A step whose programs are being compiled; ``programs`` has one entry for each region.

    ``sliced`` are the regions with the given ``slices`` of updated inputs. ``lowering_s`` are the seconds for slicing
    and starting.
    """

    cut: CutStep
    slices: Mapping[str, tuple[Rows, ...]]
    sliced: CutGraph
    programs: list[Started]
    lowering_s: float

    def plan(self, programs: Sequence[NamedProgram]) -> ReplayPlan:
        """How the step is replayed with ``programs``, one for each region."""
        names = [program.name for program in programs]
        return plan_step(self.cut.size, self.cut.graph, self.cut.passed.context, self.sliced, names)

    def report(self, programs: Sequence[NamedProgram], known: Collection[str]) -> CompileReport:
        """How the step was compiled; ``known`` are the names of programs that earlier steps had compiled."""
        named = {program.name: program for program in programs}
        passed = self.cut.passed
        return CompileReport(
            batch_size=self.cut.size,
            mode=self.cut.mode,
            nodes=passed.nodes,
            regions=len(programs),
            programs=len(named),
            stored=sum(program.is_stored for program in named.values()),
            capture_s=self.cut.capture_s,
            passes_s=passed.passes_s,
            lowering_s=self.lowering_s,
            compile_s=sum(program.seconds for name, program in named.items() if name not in known),
            passes=passed.passes,
            region_nodes=tuple(count_calls(region.module) for region in self.sliced.regions),
            program_s={name: program.seconds for name, program in named.items()},
        )


def start_steps(
    model: nn.Module,
    slots: Sequence[SlotSpec],
    sizes: Sequence[int],
    target: Target,
    mode: GraphMode,
    start: Callable[[Region, int], Started],
    say: Callable[[str], None],
) -> list[StartedStep[Started]]:
    """Every size, largest first. ``start`` is called with each region and its batch size as soon as it is known.

    Raises:
        CaptureError: a step is not one static graph, or returns what programs cannot return.
        GraphError: a graph breaks an invariant of the lowering.
    """
    started: list[StartedStep[Started]] = []
    partition = RootPartition()
    for size in sorted(sizes, reverse=True):
        cut = _cut_step(model, slots, size, target, mode)
        if mode == "regions":
            partition = partition.joined(cut.unsliced, cut.input_names)
        started.append(_start_step(cut, partition, start))
        say(f"batch {size}: captured, {cut.passed.nodes} nodes in {len(cut.unsliced.regions)} regions")
    # A smaller size may touch rows together that the slices of a larger one had apart.
    return [one if one.slices == partition.slices() else _start_step(one.cut, partition, start) for one in started]


def slots_of(model: nn.Module) -> tuple[SlotSpec, ...]:
    """The inputs that a model declares; raises CaptureError if it declares none."""
    slots: Any = getattr(model, "decode_slots", None)
    if not slots or not all(isinstance(slot, SlotSpec) for slot in slots):
        raise CaptureError(
            f"{type(model).__name__} declares no decode_slots: give it an attribute decode_slots with a SlotSpec for "
            "each argument of forward"
        )
    return tuple(slots)


def _cut_step(model: nn.Module, slots: Sequence[SlotSpec], size: int, target: Target, mode: GraphMode) -> CutStep:
    start = time.perf_counter()
    examples = {spec.name: torch.full((size, *spec.row_shape), spec.pad_value, dtype=spec.dtype) for spec in slots}
    graph = capture(model, examples)
    _check_names(model, graph)
    _check_results(model, graph, size)
    capture_s = time.perf_counter() - start
    passed = pass_captured(graph, target, slots)
    _check_result_types(model, passed)
    context = passed.context
    unsliced = cut_graph(passed.module, context.aliases, context.stage_names, whole=mode == "whole")
    return CutStep(size, mode, graph, passed, unsliced, capture_s)


def _start_step(
    cut: CutStep, partition: RootPartition, start: Callable[[Region, int], Started]
) -> StartedStep[Started]:
    begun = time.perf_counter()
    sliced = partition.applied(cut.unsliced, cut.input_names)
    programs = [start(region, cut.size) for region in sliced.regions]
    return StartedStep(cut, partition.slices(), sliced, programs, time.perf_counter() - begun)


def _check_names(model: nn.Module, graph: CapturedGraph) -> None:
    known = {name for name, _ in [*model.named_parameters(), *model.named_buffers()]}
    unknown = [one.qualified_name for one in graph.inputs if one.role != "slot" and one.qualified_name not in known]
    if unknown:
        raise CaptureError(
            f"{type(model).__name__} reads tensors {unknown} that it does not own: register them as buffers"
        )


def _check_results(model: nn.Module, graph: CapturedGraph, size: int) -> None:
    (output,) = graph.module.graph.find_nodes(op="output")
    shapes = [tuple(node.meta["val"].shape) for node in output.args[0]]
    if not shapes or any(shape[:1] != (size,) for shape in shapes):
        raise CaptureError(
            f"{type(model).__name__} returns tensors of shapes {shapes} for a batch of {size}: every result of a "
            f"decode step has a row for each request, [{size}, ...]"
        )
    float8 = [position for position, node in enumerate(output.args[0]) if node.meta["val"].dtype in FORMATS]
    if float8:
        raise CaptureError(
            f"{type(model).__name__} returns float8 values (results {float8}): programs return them as bytes, so "
            "return result.view(torch.uint8), or a wider type"
        )


def _check_result_types(model: nn.Module, passed: PassedGraph) -> None:
    """Programs for targets without int64 return int32 in its place."""
    wide = [position for position, dtype in passed.context.result_dtypes.items() if dtype is torch.int64]
    if wide:
        raise CaptureError(
            f"{type(model).__name__} returns int64 values (results {wide}), which {passed.context.target} has no type "
            "for: return result.to(torch.int32)"
        )
