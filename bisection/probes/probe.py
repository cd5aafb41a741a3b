"""One question to a compiler: what comes of this candidate?"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import fx

from ...compiler.targets.neuronx import read_log
from ...compiler.targets.process import ProcessLimits, ProcessResult, run_process
from ...compiler.targets.working_directory import working_directory
from ...errors import CompileCancelledError, LoweringError
from ...settings import environment_with
from ..subjects.render import render
from ..subjects.subject import Candidate
from .probe_compiler import ProbeCompiler
from .signature import signature_of, stable_message, without_program
from .verdict import Signature, Verdict

_LOG_CHARACTERS = 8000


@dataclass(frozen=True)
class CompileProbe:
    """Gives candidates to a compiler, each in a process and a directory of its own, of which nothing stays.

    Can be called from several threads at once.

    Attributes:
        compiler: that is started.
        limits: after which a run is killed.
    """

    compiler: ProbeCompiler
    limits: ProcessLimits = field(default_factory=ProcessLimits)

    def __call__(self, candidate: Candidate, cancel: threading.Event) -> Verdict:
        """Compile a candidate once.

        A candidate that cannot be written in the compiler's format is ``invalid``.

        Raises:
            CompileCancelledError: ``cancel`` was set, by whichever thread.
            ConfigError: the compiler cannot be started, or there is no local directory for it to work in.
        """
        start = time.monotonic()
        if cancel.is_set():
            raise CompileCancelledError(f"{self.compiler.name}: cancelled before it began")
        try:
            content = render(candidate, self.compiler.format)
        except LoweringError as error:
            return Verdict(invalid(error), time.monotonic() - start, shorten(str(error)))
        with working_directory() as directory:
            found, log = self.compile_in(directory, content, cancel)
        return Verdict(found, time.monotonic() - start, shorten(log))

    def compile_in(self, directory: Path, content: bytes, cancel: threading.Event) -> tuple[Signature | None, str]:
        """Compile what is in the compiler's format in a directory, where the program stays; the failure and the log."""
        (directory / self.compiler.input_name).write_bytes(content)
        result = self._run(directory, cancel)
        log = read_log(directory / self.compiler.log_name, result) if self.compiler.log_name else result.output
        return signature_of(result, log) or self._without_program(directory), log

    def _run(self, directory: Path, cancel: threading.Event) -> ProcessResult:
        environment = environment_with(self.compiler.environment)
        result = run_process(self.compiler.words(), directory, self.limits, cancel, environment)
        if result.outcome == "cancelled":
            raise CompileCancelledError(f"{self.compiler.name}: cancelled after {result.seconds:.1f} s")
        return result

    def _without_program(self, directory: Path) -> Signature | None:
        if not self.compiler.output_name:
            return None
        damage = self.compiler.damage(directory / self.compiler.output_name)
        return without_program(damage) if damage else None


def shorten(log: str, characters: int = _LOG_CHARACTERS) -> str:
    """Beginning and end of a log, no longer than ``characters`` and a line that says how many are left out."""
    if len(log) <= characters:
        return log
    head, tail = log[: characters // 4], log[-(characters - characters // 4) :]
    return f"{head}\n[{len(log) - characters} characters left out]\n{tail}"


def invalid(error: Exception) -> Signature:
    """The signature of a candidate that is at fault itself."""
    return Signature("invalid", message=stable_message(str(error).partition("\n")[0]))


def _identity() -> Candidate:
    graph = fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = torch.empty(4, device="meta")
    graph.output((x,))
    text = b"func.func public @main(%x: tensor<4xf32>) -> tensor<4xf32> { return %x : tensor<4xf32> }"
    return Candidate(0, text, fx.GraphModule(torch.nn.Module(), graph))


IDENTITY = _identity()
"""The module that returns its input: a compiler that does not take it is not set up."""
