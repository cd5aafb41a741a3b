"""Check the decode step of a checkpoint against the published limits of a Neuron compiler, on any machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .compiler.pipeline import check_graph_mode
from .compiler.preflight.rule import TRAINIUM, Finding
from .compiler.preflight.step import StepCheck, check_step
from .decode_source import DecodeOptions, DecodeSource
from .errors import ConfigError
from .model.checkpoint.loader import open_checkpoint
from .settings import settings
from .workbench import Say


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
    target: str,
    mode: str | None = None,
    tokens: int = DecodeOptions.tokens,
    say: Say = lambda line: None,
) -> PreflightReport:
    """Check the step of a checkpoint, with the caches that ``run_compile`` would give it, for every batch size.

    Raises CheckpointError for a damaged checkpoint, ConfigError for a target without such a compiler or an unknown
    mode, and what ``check_step`` raises.
    """
    if target not in TRAINIUM:
        raise ConfigError(f"--preflight is about {', '.join(TRAINIUM)}: name one of them as --target, not {target!r}")
    graph_mode = check_graph_mode(mode or settings().graph_mode)
    checkpoint = open_checkpoint(directory)
    say("loading the decode model")
    model = DecodeSource(checkpoint, DecodeOptions(batch_sizes, tokens, target=target)).model
    steps = []
    for size in sorted(batch_sizes):
        steps.append(check_step(model, size, target, graph_mode))
        say(f"batch {size}: {sum(steps[-1].operations.values())} operations, {len(steps[-1].findings)} findings")
    return PreflightReport(target, graph_mode, not any(step.findings for step in steps), steps)


def findings_table(report: PreflightReport) -> tuple[str, tuple[str, ...], list[tuple[object, ...]]]:
    """Title, columns and rows for ``console.print_table``; a row for each finding of each batch size."""
    rows: list[tuple[object, ...]] = [
        (step.batch_size, *_cells(finding)) for step in report.steps for finding in step.findings
    ]
    verdict = "neuronx-cc would refuse or miscompile:" if rows else "nothing to refuse"
    columns = ("batch", "code", "known from", "operation", "times", "line", "what", "instead")
    return f"{report.target}, mode {report.mode}: {verdict}", columns, rows


def _cells(finding: Finding) -> tuple[object, ...]:
    return (
        finding.code if finding.code == "-" else f"NCC_{finding.code}",
        finding.evidence,
        finding.operation,
        finding.count,
        finding.line or "",
        finding.detail,
        finding.remedy,
    )
