"""Bisect a program and write what was found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ..compiler.graphs.graph_file import SavedGraph
from ..compiler.targets.command import CompilerCommand
from ..compiler.targets.process import ProcessLimits
from ..engine.decode_source import DecodeOptions
from ..engine.dump import trace_region
from ..errors import ConfigError, GraphError, InputError, LoweringError
from ..reporting import Say
from ..runtime.devices.choice import default_target
from ..settings import settings
from .accuracy.accuracy_probe import AccuracyProbe
from .accuracy.execution import ValueFiles
from .accuracy.expectation import CRITERION
from .accuracy.miscompilation import accuracy_case, with_drawn_values, with_first_wrong, wrong_part
from .accuracy.step_values import StepTracer, step_with_values
from .probes.probe import CompileProbe
from .probes.probe_compiler import probe_compiler
from .probes.prober import Budget, BudgetSpentError, Probe, Prober
from .probes.signature import RULES, Match
from .probes.verdict_log import VerdictLog
from .report.recipe import make_recipe
from .report.write import WrittenResult, write_result
from .search.bisection import bisect
from .search.criterion import Criterion
from .search.options import BisectOptions
from .search.pass_search import introducing_pass
from .search.questions import Questions, Watch
from .search.result import BisectResult
from .subjects.program import Program, open_program, program_of
from .subjects.render import Format
from .subjects.subject import Candidate
from .subjects.values import record_values

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
        accuracy: look for a program that compiles and computes something else, instead of one that does not compile.
        passes: also find the pass that introduces the failure of ``model``.
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
    accuracy: bool = False
    passes: bool = False


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


@dataclass(frozen=True)
class NothingWrong:
    """A program that computes what it should, as a whole and region by region on the right inputs.

    ``criterion`` says what would have been wrong.
    """

    title: str
    compiler: str
    criterion: str = CRITERION

    def to_json(self) -> Mapping[str, Any]:
        """For ``--json``."""
        return {"directory": None, "wrong": False, "program": self.title, "compiler": self.compiler}


def run_bisect(request: BisectRequest, say: Say, watch: Watch) -> BisectRun | NothingWrong:
    """Bisect, write the result and run its script in a new process; without anything wrong nothing is written.

    Raises:
        ConfigError: a request that contradicts itself, no compiler, or no model.
        ArtifactError: the input or the log of verdicts is damaged, or another process uses the log.
        BisectError: the failure does not come; BudgetError if the budget ended before it could.
        CaptureError, GraphError, LoweringError: the step of the model cannot be compiled.
        DeviceError: a program has to be run, and there is no device for it.
        InputError: eager PyTorch runs the input on nothing that was drawn for it.
        OSError: the directory cannot be written.
    """
    _check(request)
    tracer = _tracer(request, say)
    program = _program(request, tracer)
    compiler = _compiler(request, program)
    limits = _limits(request.limits)
    say(f"{program.title}: {sum(not item.is_result for item in program.subject.items)} operations, {compiler.name}")
    options = BisectOptions(
        match=request.match, repeats=request.repeats, simplify=request.simplify, one_by_one=request.one_by_one
    )
    if request.accuracy:
        # Other shapes would need other values.
        options = replace(options, simplify=False, prepare=record_values)
    with (
        _probe(request, compiler, limits) as probe,
        VerdictLog(request.out / VERDICTS, _identity(request, compiler, limits)) as log,
        Prober(probe, log, request.jobs, request.budget) as prober,
    ):
        if request.accuracy:
            part = wrong_part(program, prober, watch, say)
            if part is None:
                return NothingWrong(program.title, compiler.name)
            program = part
        result = bisect(program.title, program.subject, compiler, prober, options, watch)
        if request.accuracy:
            result = with_first_wrong(result, program, prober, watch)
        if tracer and request.passes:
            result = _with_pass(result, tracer, request.match, prober, watch)
    case = accuracy_case(result, compiler) if request.accuracy else None
    recipe = make_recipe(result, compiler, limits, request.match, case)
    return BisectRun(result, write_result(result, request.out / RESULT, recipe))


def _check(request: BisectRequest) -> None:
    if (request.input is None) == (request.model is None):
        raise ConfigError("give either a file with what is to be cut, or --model with a checkpoint's directory")
    if request.passes and request.model is None:
        raise ConfigError("--passes runs the passes again with fewer of them: give the step's checkpoint as --model")
    if request.accuracy and request.command is not None:
        raise ConfigError("--accuracy runs what is compiled: give a --target that has a device here, not a --command")


def _tracer(request: BisectRequest, say: Say) -> StepTracer | None:
    """Traces the step of the model; None for a file."""
    if request.model is None:
        return None
    model, batch_size, region = request.model, request.batch_size, request.region
    options = replace(request.options, target=request.target or request.options.target)
    if request.accuracy:
        target = options.target or default_target()
        return step_with_values(model, batch_size, target, options, region, say)
    return partial(_trace_region, model, batch_size, options, region, say)


def _trace_region(*arguments: Any) -> SavedGraph:
    *others, limit = arguments
    return trace_region(*others, pass_limit=limit)


def _program(request: BisectRequest, tracer: StepTracer | None) -> Program:
    if tracer is None:
        assert request.input is not None
        # A graph is read only if the operators that it calls are registered, which the model's are when it is imported.
        from ..model import decode  # noqa: F401

        program = open_program(request.input)
        return with_drawn_values(program) if request.accuracy else program
    assert request.model is not None
    saved = tracer(None)
    return program_of(saved, f"{request.model.name}, {saved.name}, batch {request.batch_size}")


@contextmanager
def _probe(request: BisectRequest, compiler: CompilerCommand, limits: ProcessLimits) -> Iterator[Probe]:
    if not request.accuracy:
        yield CompileProbe(compiler, limits)
        return
    with ValueFiles() as files:
        yield AccuracyProbe(compiler, limits, files)


def _with_pass(result: BisectResult, tracer: StepTracer, match: Match, prober: Prober, watch: Watch) -> BisectResult:
    """The result with the pass that introduces the failure, or with why that is not known."""

    def candidate_at(limit: int) -> Candidate | None:
        try:
            subject = program_of(tracer(limit), "").subject
            return subject.candidate(range(len(subject.items)))
        except (GraphError, LoweringError):
            return None

    size = sum(not item.is_result for item in result.items)
    questions = Questions(prober, Criterion(result.signature, match, result.runs), watch, size)
    try:
        found = introducing_pass(candidate_at, questions, settings().pass_limit)
    except (BudgetSpentError, KeyboardInterrupt):
        return replace(result, introduced_by="not known: the search was ended early", complete=False)
    return replace(result, introduced_by=found, probes=prober.probes, known=prober.known, seconds=prober.seconds)


def _compiler(request: BisectRequest, program: Program) -> CompilerCommand:
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


def _identity(request: BisectRequest, compiler: CompilerCommand, limits: ProcessLimits) -> str:
    """Whatever else than a candidate decides a verdict."""
    text = f"{RULES}\n{compiler.fingerprint}\n{compiler.command}\n{limits.seconds}\n{limits.memory_bytes}"
    if request.accuracy:
        text += f"\n{CRITERION}"
    return hashlib.sha256(text.encode()).hexdigest()
