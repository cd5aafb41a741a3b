"""Bisect a program and write what was found."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from .bisect_report.recipe import make_recipe
from .bisect_report.write import WrittenResult, write_result
from .compiler.bisect.bisection import BisectOptions, bisect
from .compiler.bisect.probe import CompileProbe
from .compiler.bisect.probe_compiler import ProbeCompiler, probe_compiler
from .compiler.bisect.prober import Budget, Prober
from .compiler.bisect.program import Program, open_program, program_of
from .compiler.bisect.questions import Watch
from .compiler.bisect.render import Format
from .compiler.bisect.result import BisectResult
from .compiler.bisect.signature import RULES, Match
from .compiler.bisect.verdict_log import VerdictLog
from .compiler.targets.process import ProcessLimits
from .decode_source import DecodeOptions
from .dump import trace_region
from .errors import ConfigError, InputError
from .workbench import Say

VERDICTS = "verdicts.jsonl"
"""In the directory of a bisection: what was asked so far."""

RESULT = "result"
"""In the directory of a bisection: what was found; ``result-2`` for the next time."""


@dataclass(frozen=True)
class BisectRequest:
    """What to bisect and how; see the command's options.

    Attributes:
        out: directory of the log of verdicts, and of the results.
        input: file or directory with the program; None for the step of ``model``.
        model: checkpoint directory.
        batch_size, region, options: which step of it, or which region of that.
        target, command, format: the compiler; the target of the program without any.
        match, repeats, simplify, one_by_one: see ``BisectOptions``.
        jobs: probes that run at once.
        budget: of the whole search.
        limits: of one probe; fields that are None leave those of the environment.
    """

    out: Path
    input: Path | None = None
    model: Path | None = None
    batch_size: int = 1
    region: str | None = None
    options: DecodeOptions = DecodeOptions()  # noqa: RUF009
    target: str | None = None
    command: str | None = None
    format: Format | None = None
    match: Match = "signature"
    repeats: int = 2
    simplify: bool = True
    one_by_one: bool = False
    jobs: int = 1
    budget: Budget = Budget()  # noqa: RUF009
    limits: ProcessLimits = ProcessLimits()  # noqa: RUF009


@dataclass(frozen=True)
class BisectRun:
    """What was found, and where it was written."""

    result: BisectResult
    written: WrittenResult

    @property
    def is_reproduced(self) -> bool:
        """Whether the script that was written made the compiler fail again, in a new process."""
        return self.written.run is not None and self.written.run.is_reproduced

    def to_json(self) -> Mapping[str, Any]:
        """For ``--json``."""
        return {
            "directory": str(self.written.directory),
            "signature": str(self.result.signature),
            "operations": self.result.minimal.size,
            "probes": self.result.probes,
            "complete": self.result.complete,
            "reproduced": self.is_reproduced,
        }


def run_bisect(request: BisectRequest, say: Say, watch: Watch) -> BisectRun:
    """Bisect, write the result and run its script in a new process.

    Raises:
        ConfigError: a request that contradicts itself, no compiler, or no model.
        ArtifactError: the input or the log of verdicts is damaged, or another process uses the log.
        BisectError: the failure does not come.
        CaptureError, GraphError, LoweringError: the step of the model cannot be compiled.
        OSError: the directory cannot be written.
    """
    program = _program(request, say)
    compiler = _compiler(request, program)
    limits = _limits(request.limits)
    say(f"{program.title}: {sum(not item.is_result for item in program.subject.items)} operations, {compiler.name}")
    options = BisectOptions(
        match=request.match, repeats=request.repeats, simplify=request.simplify, one_by_one=request.one_by_one
    )
    with (
        VerdictLog(request.out / VERDICTS, _identity(compiler, limits)) as log,
        Prober(CompileProbe(compiler, limits), log, request.jobs, request.budget) as prober,
    ):
        result = bisect(program.title, program.subject, compiler, prober, options, watch)
    recipe = make_recipe(result, compiler, limits, request.match)
    return BisectRun(result, write_result(result, request.out / RESULT, recipe))


def _program(request: BisectRequest, say: Say) -> Program:
    if (request.input is None) == (request.model is None):
        raise ConfigError("give either a file with what is to be cut, or --model with a checkpoint's directory")
    if request.input is not None:
        # A graph is read only if the operators that it calls are registered, which the model's are when it is imported.
        import_module(".model.decode", __package__)
        return open_program(request.input)
    assert request.model is not None
    options = replace(request.options, target=request.target or request.options.target)
    saved = trace_region(request.model, request.batch_size, options, request.region, say)
    return program_of(saved, f"{request.model.name}, {saved.name}, batch {request.batch_size}")


def _compiler(request: BisectRequest, program: Program) -> ProbeCompiler:
    if request.command is not None:
        return probe_compiler(None, request.command, request.format)
    target = request.target or program.target
    if not target:
        raise InputError(f"{program.title} does not say whose compiler failed: give --target or --command")
    return probe_compiler(target, None, request.format)


def _limits(asked: ProcessLimits) -> ProcessLimits:
    usual = ProcessLimits.from_settings()
    return replace(
        usual,
        seconds=usual.seconds if asked.seconds is None else asked.seconds,
        memory_bytes=usual.memory_bytes if asked.memory_bytes is None else asked.memory_bytes,
    )


def _identity(compiler: ProbeCompiler, limits: ProcessLimits) -> str:
    """Whatever else than a candidate decides a verdict."""
    text = f"{RULES}\n{compiler.fingerprint}\n{compiler.command}\n{limits.seconds}\n{limits.memory_bytes}"
    return hashlib.sha256(text.encode()).hexdigest()
