"""Compile a model's decode step for a ladder of batch sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import nn

from ..errors import CaptureError
from ..passes.float8 import FORMATS
from ..runtime.artifacts import Artifact
from ..runtime.devices.choice import default_target, device_for
from ..runtime.ladder import size_ladder
from ..runtime.loader import DecodeVariant, store_plan
from ..runtime.plan import DecodePlan, GraphMode, ReplayPlan
from ..runtime.runner import DecodeRunner
from ..runtime.slots import SlotSpec
from ..runtime.stats import CompileReport
from ..runtime.store.default import default_store
from ..runtime.store.store import ArtifactStore
from ..runtime.weights import BoundTensors
from ..settings import settings
from .capture import CapturedGraph, capture
from .compiling_threads import compiling_threads
from .cut import CutGraph
from .pass_captured import pass_captured
from .pipeline import PassedGraph, check_graph_mode, check_numerics, count_calls, find_target
from .region_programs import RegionPrograms, TimedArtifact
from .regions import cut_graph
from .root_partition import RootPartition, Rows
from .step_plan import plan_step

Progress = Callable[[str], None]


class DecodeStep(Protocol):
    """A module whose ``forward`` takes its ``decode_slots`` as keyword arguments."""

    @property
    def decode_slots(self) -> Sequence[SlotSpec]:
        """The inputs of one step."""
        ...


def compile_decode(
    model: nn.Module,
    batch_sizes: int | Iterable[int],
    target: str | None = None,
    numerics: str = "fast",
    mode: str | None = None,
    progress: Progress | None = None,
    store: ArtifactStore | None = None,
    assert_hit: bool = False,
    identity: Mapping[str, Any] | None = None,
) -> DecodeRunner:
    """Compile ``model``'s decode step and return a runner for it.

    The model declares its inputs as ``decode_slots``. Every tensor that it returns has a row for each request.
    Parameters and caches stay in the model's own memory, so its eager code and the runner share them.

    Args:
        model: a module with ``decode_slots``; its ``forward`` is one decode step.
        batch_sizes: sizes to compile, or the largest live batch, from which a ladder is made.
        target: whose compiler is used. Left out, it is that of the device in ``DEEPINFER_NEURON_DEVICE``.
        numerics: "fast", or "exact" for eager PyTorch's order of operations.
        mode: "whole" makes one program of a step; "regions" cuts it at the model's stage boundaries and compiles
            each kind of region once. Left out, ``DEEPINFER_NEURON_GRAPH_MODE`` decides, else it is "whole".
        progress: called with a line of text as each batch size passes a stage.
        store: where compiled programs are found and kept. Left out, ``DEEPINFER_NEURON_CACHE`` decides, else there is
            none. A stored program is neither lowered nor compiled again.
        assert_hit: refuse to compile a program that is not stored.
        identity: JSON values that decide the step's graph, such as ``model.identity.model_identity``. With them the
            plan is stored too, and ``runtime.loader.load_runner`` makes a runner in another process from it.

    Raises:
        ArtifactError: ``assert_hit``, and a program is not stored; the message says in what the nearest one differs.
        CaptureError: the step is not one static graph; the message names the source line.
        ConfigError: an unknown target, numerics or mode.
        LoweringError: an operator of the step has no lowering.
        CompileError: the target's compiler refused a program.
    """
    slots = slots_of(model)
    sizes = () if settings().enforce_eager else size_ladder(batch_sizes)
    chosen, arithmetic = find_target(target or default_target()), check_numerics(numerics)
    graph_mode = check_graph_mode(mode or settings().graph_mode)
    report = progress or (lambda line: None)
    compiled: list[_CompiledStep] = []
    with compiling_threads(chosen) as pool:
        store = store or default_store()
        programs = RegionPrograms(chosen, arithmetic, pool, store, assert_hit)
        pending: list[_LoweredStep] = []
        partition = RootPartition()
        for size in reversed(sizes):
            step = _capture_step(model, slots, size)
            passed = pass_captured(step.graph, chosen, slots)
            _check_result_types(model, passed)
            cut = _cut_step(step, passed, graph_mode)
            if graph_mode == "regions":
                partition = partition.joined(cut.unsliced, step.input_names)
            pending.append(_lower_step(cut, partition, programs))
            report(f"batch {size}: captured, {passed.nodes} nodes in {len(cut.unsliced.regions)} regions")
        # A smaller size may touch rows together that the slices of a larger one had apart.
        pending = [
            step if step.slices == partition.slices() else _lower_step(step.cut, partition, programs)
            for step in pending
        ]
        known: set[str] = set()
        for step in pending:
            compiled.append(_finish_step(step, known))
            known.update(step.kinds)
            report(f"batch {step.cut.step.size}: compiled in {compiled[-1].report.compile_s:.1f} s")
    plan = DecodePlan(slots, tuple(step.replay for step in compiled))
    if store is not None and identity is not None and all(step.is_stored for step in compiled):
        fingerprint = chosen.fingerprint()
        store_plan(store, DecodeVariant(identity, sizes, chosen.name, fingerprint, arithmetic, graph_mode), plan)
    artifacts = {digest: artifact for step in compiled for digest, artifact in step.artifacts.items()}
    device = device_for(next((artifact.target for artifact in artifacts.values()), chosen.name))
    executables = {digest: device.load(artifact) for digest, artifact in artifacts.items()}
    tensors = BoundTensors(model, plan.tensor_names)
    return DecodeRunner(plan, executables, tensors, device, model, [step.report for step in compiled])


@dataclass(frozen=True)
class _CapturedStep:
    size: int
    graph: CapturedGraph
    seconds: float

    @property
    def input_names(self) -> list[str]:
        return [one.qualified_name for one in self.graph.inputs]


@dataclass(frozen=True)
class _CutStep:
    step: _CapturedStep
    passed: PassedGraph
    mode: GraphMode
    unsliced: CutGraph


@dataclass(frozen=True)
class _LoweredStep:
    """A step whose programs are being compiled; ``kinds`` and ``programs`` have one entry for each region.

    ``sliced`` are the regions with the given ``slices`` of updated inputs.
    """

    cut: _CutStep
    slices: Mapping[str, tuple[Rows, ...]]
    sliced: CutGraph
    kinds: list[str]
    programs: list[Future[TimedArtifact]]
    lowering_s: float


@dataclass(frozen=True)
class _CompiledStep:
    """``is_stored``: every program has a key in the store."""

    replay: ReplayPlan
    artifacts: dict[str, Artifact]
    report: CompileReport
    is_stored: bool


def slots_of(model: nn.Module) -> tuple[SlotSpec, ...]:
    """The ``decode_slots`` of a model; raises CaptureError if it has none."""
    slots: Any = getattr(model, "decode_slots", None)
    if not slots or not all(isinstance(slot, SlotSpec) for slot in slots):
        raise CaptureError(
            f"{type(model).__name__} declares no decode_slots: give it an attribute decode_slots with a SlotSpec for "
            "each argument of forward"
        )
    return tuple(slots)


def _capture_step(model: nn.Module, slots: Sequence[SlotSpec], size: int) -> _CapturedStep:
    start = time.perf_counter()
    examples = {spec.name: torch.full((size, *spec.row_shape), spec.pad_value, dtype=spec.dtype) for spec in slots}
    graph = capture(model, examples)
    _check_names(model, graph)
    _check_results(model, graph, size)
    return _CapturedStep(size, graph, time.perf_counter() - start)


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


def _cut_step(step: _CapturedStep, passed: PassedGraph, mode: GraphMode) -> _CutStep:
    context = passed.context
    unsliced = cut_graph(passed.module, context.aliases, context.stage_names, whole=mode == "whole")
    return _CutStep(step, passed, mode, unsliced)


def _lower_step(cut: _CutStep, partition: RootPartition, programs: RegionPrograms) -> _LoweredStep:
    start = time.perf_counter()
    sliced = partition.applied(cut.unsliced, cut.step.input_names)
    pairs = [programs.program(region) for region in sliced.regions]
    return _LoweredStep(
        cut=cut,
        slices=partition.slices(),
        sliced=sliced,
        kinds=[kind for kind, _ in pairs],
        programs=[program for _, program in pairs],
        lowering_s=time.perf_counter() - start,
    )


def _finish_step(lowered: _LoweredStep, known: Collection[str]) -> _CompiledStep:
    """Wait for a step's programs; ``known`` are the kinds of region that earlier steps had compiled."""
    programs = [program.result() for program in lowered.programs]
    named = {kind: (one.name, one) for kind, one in zip(lowered.kinds, programs, strict=True)}
    step, passed = lowered.cut.step, lowered.cut.passed
    artifacts = [named[kind][0] for kind in lowered.kinds]
    report = CompileReport(
        batch_size=step.size,
        mode=lowered.cut.mode,
        nodes=passed.nodes,
        regions=len(programs),
        programs=len(named),
        stored=sum(one.is_stored for _, one in named.values()),
        capture_s=step.seconds,
        passes_s=passed.passes_s,
        lowering_s=lowered.lowering_s,
        compile_s=sum(one.seconds for kind, (_, one) in named.items() if kind not in known),
        passes=passed.passes,
        region_nodes=tuple(count_calls(region.module) for region in lowered.sliced.regions),
        program_s={name: one.seconds for name, one in named.values()},
    )
    replay = plan_step(step.size, step.graph, passed.context, lowered.sliced, artifacts)
    compiled = {name: one.artifact for name, one in named.values()}
    return _CompiledStep(replay, compiled, report, is_stored=all(one.key for one in programs))
