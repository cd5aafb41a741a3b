"""Compile a model's decode step for a ladder of batch sizes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from torch import nn

from ..errors import ArtifactError
from ..reporting import Say
from ..runtime.artifacts import Artifact
from ..runtime.devices.choice import default_target, device_for
from ..runtime.ladder import size_ladder
from ..runtime.loader import DecodeVariant, store_plan
from ..runtime.plan import DecodePlan, ReplayPlan
from ..runtime.runner import DecodeRunner
from ..runtime.stats import CompileReport
from ..runtime.store.default import default_store, open_store
from ..runtime.store.store import ArtifactStore
from ..runtime.weights import BoundTensors
from ..settings import settings
from .programs.compiling_threads import compiling_threads
from .programs.plan_fingerprint import plan_fingerprint
from .programs.region_programs import RegionPrograms, TimedArtifact
from .steps.captured_step import slots_of
from .steps.pipeline import check_graph_mode, check_numerics
from .steps.started_steps import StartedStep, start_steps
from .targets.table import find_target


def compile_decode(
    model: nn.Module,
    batch_sizes: int | Iterable[int],
    target: str | None = None,
    numerics: str = "fast",
    mode: str | None = None,
    progress: Say = lambda line: None,
    store: ArtifactStore | str | Path | Literal[False] | None = None,
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
        store: where compiled programs are found and kept, or its directory. Left out, ``DEEPINFER_NEURON_CACHE``
            decides, else there is none; False is none in any case. A stored program is neither lowered nor compiled
            again.
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
    found = default_store() if store is None else None if store is False else open_store(store)
    with compiling_threads(chosen) as pool:
        programs = RegionPrograms(chosen, arithmetic, pool, found, assert_hit)
        started = start_steps(model, sizes, chosen, graph_mode, programs.program, progress)
        compiled: list[_CompiledStep] = []
        known: set[str] = set()
        for step in started:
            compiled.append(_finish_step(step, known))
            known.update(compiled[-1].report.program_s)
            progress(f"batch {compiled[-1].report.batch_size}: compiled in {compiled[-1].report.compile_s:.1f} s")
    plan = DecodePlan(slots, tuple(step.replay for step in compiled))
    if found is not None and identity is not None and all(step.is_stored for step in compiled):
        try:
            fingerprint = plan_fingerprint(chosen)
        except ArtifactError as error:
            progress(f"the plan is not stored: {error}")
        else:
            store_plan(found, DecodeVariant(identity, sizes, chosen.name, fingerprint, arithmetic, graph_mode), plan)
    artifacts = {digest: artifact for step in compiled for digest, artifact in step.artifacts.items()}
    device = device_for(next((artifact.target for artifact in artifacts.values()), chosen.name))
    executables = {digest: device.load(artifact) for digest, artifact in artifacts.items()}
    tensors = BoundTensors(model, plan.tensor_names)
    return DecodeRunner(plan, executables, tensors, device, model, [step.report for step in compiled])


@dataclass(frozen=True)
class _CompiledStep:
    """``is_stored``: every program has a key in the store."""

    replay: ReplayPlan
    artifacts: dict[str, Artifact]
    report: CompileReport
    is_stored: bool


def _finish_step(started: StartedStep[Future[TimedArtifact]], known: Collection[str]) -> _CompiledStep:
    """Wait for a step's programs; ``known`` are the names of programs that earlier steps had compiled."""
    programs = [program.result() for program in started.programs]
    return _CompiledStep(
        replay=started.plan(programs),
        artifacts={one.name: one.artifact for one in programs},
        report=started.report(programs, known),
        is_stored=all(one.key for one in programs),
    )
