"""Bisect a program and write what was found."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..compiler.targets.command import CompilerCommand
from ..compiler.targets.process import ProcessLimits
from ..engine.decode_source import DecodeOptions
from ..errors import ConfigError, GraphError, InputError, LoweringError
from ..reporting import Say
from ..runtime.devices.choice import default_target
from ..settings import settings
from .accuracy.accuracy_probe import AccuracyProbe
from .accuracy.execution import ValueFiles
from .accuracy.expectation import CRITERION
from .accuracy.miscompilation import accuracy_case, with_drawn_values, with_first_wrong, wrong_part
from .probes.failure_signature import SIGNATURE_RULES, Match
from .probes.memo import Memo
from .probes.probe import CompileProbe
from .probes.probe_compiler import probe_compiler
from .probes.probe_runner import Budget, BudgetSpentError, Probe, ProbeRunner
from .report.recipe import make_recipe
from .report.write import WrittenResult, write_result
from .search.bisect import bisect
from .search.interestingness import Interestingness
from .search.options import SearchOptions
from .search.oracle import Oracle
from .search.pass_search import introducing_pass
from .search.progress import OnProgress
from .search.result import BisectResult
from .subjects.program import Program, open_program, program_from_graph
from .subjects.render import Format
from .subjects.step_tracer import StepTracer
from .subjects.subject import Candidate
from .subjects.values import record_values

MEMO = "verdicts.jsonl"
"""In the directory of a bisection: what was asked so far."""

RESULT_DIRECTORY = "result"
"""In the directory of a bisection: what was found; ``result-2`` for the next time."""


@dataclass(frozen=True)
class ModelStep:
    """The decode step of a checkpoint, or one region of it.

    Attributes:
        directory: of the checkpoint.
        batch_size, region, options: which step, or which region of it.
    """

    directory: Path
    batch_size: int = 1
    region: str | None = None
    options: DecodeOptions = DecodeOptions()  # noqa: RUF009


@dataclass(frozen=True)
class CompilerChoice:
    """Whose compiler is asked: that of a target, or any command; that of the program's own target without either.

    ``format`` is what the command reads, see ``probe_compiler``.
    """

    target: str | None = None
    command: str | None = None
    format: Format | None = None


@dataclass(frozen=True)
class Effort:
    """What a bisection may take.

    Attributes:
        jobs: probes that run at once.
        budget: of the whole search.
        limits: of one probe; fields that are None leave those of the environment.
    """

    jobs: int = 1
    budget: Budget = Budget()  # noqa: RUF009
    limits: ProcessLimits = ProcessLimits()  # noqa: RUF009


@dataclass(frozen=True)
class BisectRequest:
    """What to bisect and how; see the command's options.

    Attributes:
        what: file or directory with the program, or the step of a model.
        out: directory of the memo, and of the results.
        accuracy: look for a program that compiles and computes something else, instead of one that does not compile.
        passes: also find the pass that introduces the failure of a step.
    """

    what: Path | ModelStep
    out: Path
    compiler: CompilerChoice = CompilerChoice()
    search: SearchOptions = SearchOptions()  # noqa: RUF009
    effort: Effort = Effort()
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
            "signature": str(self.result.failure.signature),
            "operations": self.result.reduction.minimal.size,
            "probes": self.result.cost.probes,
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


def run_bisect(request: BisectRequest, say: Say, on_progress: OnProgress) -> BisectRun | NothingWrong:
    """Bisect, write the result and run its script in a new process; without anything wrong nothing is written.

    Raises:
        ConfigError: a request that contradicts itself, no compiler, or no model.
        ArtifactError: the input or the memo is damaged, or another process uses it.
        BisectError: the failure does not come; BudgetError if the budget ended before it could.
        CaptureError, GraphError, LoweringError: the step of the model cannot be compiled.
        DeviceError: a program has to be run, and there is no device for it.
        InputError: eager PyTorch runs the input on nothing that was drawn for it.
        OSError: the directory cannot be written.
    """
    _check(request)
    tracer = _tracer(request, say)
    program = _program(request, tracer)
    compiler = _compiler(request.compiler, program)
    limits = _limits(request.effort.limits)
    say(f"{program.title}: {sum(not item.is_result for item in program.subject.items)} operations, {compiler.name}")
    options = request.search
    if request.accuracy:
        # Other shapes would need other values.
        options = replace(options, simplify=False, prepare=record_values)
    with (
        _probe(request, compiler, limits) as probe,
        Memo(request.out / MEMO, _identity(request, compiler, limits)) as memo,
        ProbeRunner(probe, memo, request.effort.jobs, request.effort.budget) as runner,
    ):
        if request.accuracy:
            part = wrong_part(program, runner, on_progress, say)
            if part is None:
                return NothingWrong(program.title, compiler.name)
            program = part
        result = bisect(program.title, program.subject, compiler, runner, options, on_progress)
        if request.accuracy:
            result = with_first_wrong(result, program, runner, on_progress)
        if tracer and request.passes:
            result = _with_pass(result, tracer, options.match, runner, on_progress)
    case = accuracy_case(result) if request.accuracy else None
    recipe = make_recipe(result, compiler, limits, options.match, case)
    return BisectRun(result, write_result(result, request.out / RESULT_DIRECTORY, recipe))


def _check(request: BisectRequest) -> None:
    if request.passes and not isinstance(request.what, ModelStep):
        raise ConfigError("--passes runs the passes again with fewer of them: give the step's checkpoint as --model")
    if request.accuracy and request.compiler.command is not None:
        raise ConfigError("--accuracy runs what is compiled: give a --target that has a device here, not a --command")


def _tracer(request: BisectRequest, say: Say) -> StepTracer | None:
    """Traces the step of the model; None for a file."""
    step = request.what
    if not isinstance(step, ModelStep):
        return None
    # What captures a step loads Dynamo, which takes seconds that the bisection of a file can do without.
    from ..engine.dump import trace_region
    from .accuracy.step_values import step_with_values

    options = replace(step.options, target=request.compiler.target or step.options.target)
    if request.accuracy:
        target = options.target or default_target()
        return step_with_values(step.directory, step.batch_size, target, options, step.region, say)
    return lambda limit: trace_region(step.directory, step.batch_size, options, step.region, say, pass_limit=limit)


def _program(request: BisectRequest, tracer: StepTracer | None) -> Program:
    what = request.what
    if isinstance(what, ModelStep):
        assert tracer is not None
        saved = tracer(None)
        return program_from_graph(saved, f"{what.directory.name}, {saved.name}, batch {what.batch_size}")
    # A graph is read only if the operators that it calls are registered, which the model's are when it is imported.
    from ..model import decode  # noqa: F401

    program = open_program(what)
    return with_drawn_values(program) if request.accuracy else program


@contextmanager
def _probe(request: BisectRequest, compiler: CompilerCommand, limits: ProcessLimits) -> Iterator[Probe]:
    if not request.accuracy:
        yield CompileProbe(compiler, limits)
        return
    with ValueFiles() as files:
        yield AccuracyProbe(compiler, limits, files)


def _with_pass(
    result: BisectResult, tracer: StepTracer, match: Match, runner: ProbeRunner, on_progress: OnProgress
) -> BisectResult:
    """The result with the pass that introduces the failure, or with why that is not known."""

    def candidate_at(limit: int) -> Candidate | None:
        try:
            subject = program_from_graph(tracer(limit), "").subject
            return subject.candidate(range(len(subject.items)))
        except (GraphError, LoweringError):
            return None

    test = Interestingness(result.failure.signature, match, result.failure.runs)
    complete = result.complete
    try:
        found = introducing_pass(
            candidate_at, Oracle(runner, test, on_progress, result.reduction.operations), settings().pass_limit
        )
    except (BudgetSpentError, KeyboardInterrupt):
        found, complete = "not known: the search was ended early", False
    evidence = replace(result.evidence, introduced_by=found)
    return replace(result, evidence=evidence, cost=result.cost.up_to_now(runner), complete=complete)


def _compiler(choice: CompilerChoice, program: Program) -> CompilerCommand:
    if choice.command is not None:
        return probe_compiler(None, choice.command, choice.format)
    target = choice.target or program.target
    if not target:
        raise InputError(f"{program.title} does not say whose compiler failed: give --target or --command")
    return probe_compiler(target, None, choice.format)


def _limits(asked: ProcessLimits) -> ProcessLimits:
    usual = ProcessLimits.from_settings()
    return replace(
        usual,
        seconds=usual.seconds if asked.seconds is None else asked.seconds,
        memory_bytes=usual.memory_bytes if asked.memory_bytes is None else asked.memory_bytes,
    )


def _identity(request: BisectRequest, compiler: CompilerCommand, limits: ProcessLimits) -> str:
    """Whatever else than a candidate decides a verdict."""
    text = f"{SIGNATURE_RULES}\n{compiler.fingerprint}\n{compiler.command}\n{limits.seconds}\n{limits.memory_bytes}"
    if request.accuracy:
        text += f"\n{CRITERION}"
    return hashlib.sha256(text.encode()).hexdigest()
