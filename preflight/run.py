"""Check the decode step of a checkpoint against the published limits of a Neuron compiler, on any machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..compiler.steps.pipeline import check_graph_mode
from ..compiler.targets.neuronx import neuron_target
from ..engine.decode_source import DecodeOptions, DecodeSource
from ..errors import ConfigError
from ..model.checkpoint.loader import open_checkpoint
from ..passes.target_facts import TRAINIUM
from ..reporting import Say
from ..runtime.devices.choice import default_target
from ..settings import settings
from .step import StepCheck, check_steps


@dataclass(frozen=True)
class PreflightReport:
    """What was found for one target; ``passed`` if nothing was."""

    target: str
    mode: str
    passed: bool
    steps: list[StepCheck]


def run_preflight(
    directory: Path,
    batch_sizes: Sequence[int],
    target: str | None = None,
    mode: str | None = None,
    max_context: int = DecodeOptions.max_context,
    max_requests: int | None = None,
    say: Say = lambda line: None,
) -> PreflightReport:
    """Check the step of a checkpoint, with the caches that ``run_compile`` would give it, for every batch size.

    Left out, ``target`` is that of the device in ``DEEPINFER_NEURON_DEVICE``.

    Raises CheckpointError for a damaged checkpoint, ConfigError for a target without such a compiler or an unknown
    mode, DeviceError if no target was named and the device is not there, and what ``check_steps`` raises.
    """
    chosen = target or default_target()
    if chosen not in TRAINIUM:
        instead = f"not {target!r}" if target else f"since DEEPINFER_NEURON_DEVICE stands for {chosen!r} here"
        raise ConfigError(f"preflight is about {', '.join(TRAINIUM)}: name one of them as --target, {instead}")
    graph_mode = check_graph_mode(mode or settings().graph_mode)
    checkpoint = open_checkpoint(directory)
    say("loading the decode model")
    model = DecodeSource(checkpoint, DecodeOptions(batch_sizes, max_context, max_requests, target=chosen)).model
    steps = check_steps(model, batch_sizes, neuron_target(chosen), graph_mode, say)
    for step in steps:
        say(_summary(step))
    return PreflightReport(chosen, graph_mode, not any(step.findings for step in steps), steps)


def _summary(step: StepCheck) -> str:
    operations, findings = sum(step.operations.values()), len(step.findings)
    return f"batch {step.batch_size}: {operations} operations checked in {step.seconds:.2f} s, {findings} findings"
