"""Compile the decode step of a checkpoint before it is served, and say what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..compiler.programs.stored_programs import StoredProgram, Watch
from ..compiler.steps.stored_steps import compile_into_store
from ..errors import ArtifactError, ConfigError
from ..explain.step import ExplainedStep, explain_runner, explain_step
from ..model.checkpoint.loader import open_checkpoint
from ..reporting import Say
from ..runtime.plan import DecodePlan
from ..runtime.processor import usable_processors
from ..runtime.stats import CompileReport
from ..runtime.store.programs import find_program
from ..runtime.store.store import ArtifactStore
from ..settings import settings
from .decode_source import DecodeOptions, DecodeSource


@dataclass(frozen=True)
class CompileResult:
    """What was compiled.

    Attributes:
        store: the directory of the store; None if nothing was to be stored.
        plan: digest of the key that the plan is stored under; None if it is not, because a program failed.
        programs: what the store was asked for, largest batch size first.
        steps: every batch size, smallest first; none if a program failed.
    """

    store: str | None
    plan: str | None
    programs: tuple[StoredProgram, ...]
    steps: list[ExplainedStep]


def run_compile(
    directory: Path,
    options: DecodeOptions,
    store: ArtifactStore | None,
    jobs: int | None = None,
    assert_hit: bool = False,
    say: Say = lambda line: None,
    watch: Watch = lambda program: None,
) -> CompileResult:
    """Compile a checkpoint's step into ``store``, or without one in this process, which proves only that it can be.

    With a store, ``loading.load_decode`` of the same options starts from it without compiling anything.

    Args:
        jobs: programs that are compiled at once; as many as there are processors if left out.
        assert_hit: count programs that are not stored as failed, instead of compiling them.
        say: called with a line of text before each thing that takes a while.
        watch: called whenever something happens to a program, from any thread.

    Raises:
        CheckpointError: a damaged checkpoint.
        ConfigError: an unknown mode, numerics or target, or the environment forbids compiling.
        CaptureError: the step is not one static graph.
        ArtifactError: ``assert_hit`` without a store.
    """
    if settings().enforce_eager:
        raise ConfigError("DEEPINFER_ENFORCE_EAGER is set, so nothing would be compiled: unset it")
    if assert_hit and store is None:
        raise ArtifactError(
            "without a store every program would be a miss: give --store DIRECTORY or set DEEPINFER_NEURON_CACHE"
        )
    with open_checkpoint(directory) as checkpoint:
        source = DecodeSource(checkpoint, options)
        say("loading the decode model")
        if store is None:
            return CompileResult(None, None, (), explain_runner(source.compile(False, say)))
        count = jobs or usable_processors()
        stored = compile_into_store(source.model, source.variant, store, count, assert_hit, watch, say)
        if stored.plan is None:
            return CompileResult(str(store.local.root), None, stored.programs, [])
        say("storing the weights as the programs take them")
        source.store_weights(store, stored.plan)
        steps = _explain(stored.plan, stored.reports, store)
        return CompileResult(str(store.local.root), source.variant.plan_key.digest, stored.programs, steps)


def _explain(plan: DecodePlan, reports: tuple[CompileReport, ...], store: ArtifactStore) -> list[ExplainedStep]:
    artifacts = {digest: find_program(store, digest) for digest in plan.programs}
    replays = {replay.batch_size: replay for replay in plan.replays}
    return [explain_step(replays[report.batch_size], report, artifacts) for report in reversed(reports)]
