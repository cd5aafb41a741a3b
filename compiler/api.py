"""Compile a model's decode step for a ladder of batch sizes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ..errors import CaptureError
from ..runtime.artifacts import Artifact
from ..runtime.devices.pjrt import host_device
from ..runtime.ladder import size_ladder
from ..runtime.plan import DecodePlan, InputBinding, ReplayPlan, digest
from ..runtime.runner import DecodeRunner
from ..runtime.slots import SlotSpec
from ..runtime.stats import CompileReport
from ..runtime.weights import holds_exactly
from ..settings import settings
from .capture import CapturedGraph, GraphInput, capture
from .pipeline import ShapedGraph, check_numerics, find_target, shape_graph
from .targets.base import Target

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
    target: str = "host",
    numerics: str = "fast",
    progress: Progress | None = None,
) -> DecodeRunner:
    """Compile ``model``'s decode step and return a runner for it.

    The model declares its inputs as ``decode_slots``. Every tensor that it returns has a row for each request.
    Parameters and caches stay in the model's own memory, so its eager code and the runner share them.

    Args:
        model: a module with ``decode_slots``; its ``forward`` is one decode step.
        batch_sizes: sizes to compile, or the largest live batch, from which a ladder is made.
        target: whose compiler is used.
        numerics: "fast", or "exact" for eager PyTorch's order of operations.
        progress: called with a line of text as each batch size passes a stage.

    Raises:
        CaptureError: the step is not one static graph; the message names the source line.
        LoweringError: an operator of the step has no lowering.
        CompileError: the target's compiler refused a program.
    """
    slots = _slots_of(model)
    sizes = () if settings().enforce_eager else size_ladder(batch_sizes)
    chosen, mode = find_target(target), check_numerics(numerics)
    report = progress or (lambda line: None)
    compiled: list[_CompiledStep] = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        pending = []
        for size in reversed(sizes):
            step = _capture_step(model, slots, size)
            shaped = shape_graph(step.graph.module, chosen, mode, step.input_keys(), step.holds_bfloat16)
            report(f"batch {size}: captured, {shaped.nodes} nodes")
            pending.append(pool.submit(_compile_step, step, shaped, chosen))
        for future in pending:
            compiled.append(future.result())
            report(f"batch {compiled[-1].replay.batch_size}: compiled in {compiled[-1].report.compile_s:.1f} s")
    plan = DecodePlan(slots, tuple(step.replay for step in compiled))
    artifacts = {step.replay.artifact: step.artifact for step in compiled}
    return DecodeRunner(plan, artifacts, model, host_device(), model, [step.report for step in compiled])


@dataclass(frozen=True)
class _CapturedStep:
    size: int
    graph: CapturedGraph
    seconds: float

    def holds_bfloat16(self, position: int) -> bool:
        tensor = self.graph.inputs[position].tensor
        return tensor is not None and holds_exactly(tensor, torch.bfloat16)

    def input_keys(self) -> list[object]:
        return [_memory_key(one) for one in self.graph.inputs]


@dataclass(frozen=True)
class _CompiledStep:
    replay: ReplayPlan
    artifact: Artifact
    report: CompileReport


def _slots_of(model: nn.Module) -> tuple[SlotSpec, ...]:
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


def _compile_step(step: _CapturedStep, shaped: ShapedGraph, target: Target) -> _CompiledStep:
    start = time.perf_counter()
    artifact = target.compile(shaped.lowered)
    replay = ReplayPlan(
        batch_size=step.size,
        artifact=digest(artifact),
        inputs=tuple(_bind(one, shaped.carriers.get(index)) for index, one in enumerate(step.graph.inputs)),
        aliases=shaped.lowered.aliases,
        result=step.graph.result,
    )
    report = CompileReport(
        batch_size=step.size,
        capture_s=step.seconds,
        passes_s=shaped.passes_s,
        lowering_s=shaped.lowering_s,
        compile_s=time.perf_counter() - start,
        nodes=shaped.nodes,
    )
    return _CompiledStep(replay, artifact, report)


def _bind(one: GraphInput, carrier: torch.dtype | None) -> InputBinding:
    kind = "slot" if one.role == "slot" else "kv" if one.role == "kv" else "weight"
    return InputBinding(kind, one.qualified_name, one.dtype, one.shape, carrier or one.dtype)


def _memory_key(one: GraphInput) -> object:
    tensor: Tensor | None = one.tensor
    return one.name if tensor is None else (tensor.data_ptr(), tensor.dtype, one.shape, one.stride)
