"""How a compiler is started as a process, what it reads and writes, and one run of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ...errors import CompileCancelledError
from ...settings import environment_with
from .process import ProcessLimits, ProcessResult, run_process

Format = Literal["mlir", "text", "portable", "hlo", "python"]
"""``mlir``: StableHLO bytecode; ``text``: the same as MLIR text; ``portable``: a StableHLO portable artifact; ``hlo``:
an HLO module proto; ``python``: the FX graph as a Python file."""


def missing_output(path: Path) -> str:
    """What is wrong with a compiler's output if only its existence counts; empty for nothing."""
    return "" if path.exists() else f"it wrote no {path.name}"


@dataclass(frozen=True)
class CompilerCommand:
    """How a compiler is started, and what it reads and writes in its working directory.

    Attributes:
        name: for people, such as ``trn2`` or ``iree-compile``.
        command: program and arguments; ``{input}`` and ``{output}`` stand for the two files, anywhere in a word.
        input_name: name of the file that it reads; ``format``: what is in it.
        output_name: name of the file that it writes; empty if only its exit status counts.
        fingerprint: everything besides the module that decides its answer: program, version, flags, format.
        environment: variables that it gets beside those of this process.
        log_name: of a file with more of what it says; empty if it has none.
        damage: what is wrong with the file that it wrote; empty for nothing.
    """

    name: str
    command: tuple[str, ...]
    input_name: str
    output_name: str
    format: Format
    fingerprint: str
    environment: Mapping[str, str] = field(default_factory=dict)
    log_name: str = ""
    damage: Callable[[Path], str] = field(default=missing_output, compare=False, repr=False)

    def words(self) -> list[str]:
        """The command with the names of the files, to be run where they are."""
        names = (("{input}", self.input_name), ("{output}", self.output_name))
        words = list(self.command)
        for place, name in names:
            words = [word.replace(place, name) for word in words]
        return words


@dataclass(frozen=True)
class CompilerRun:
    """What came of a run.

    Attributes:
        result: how the process ended.
        log: everything that it printed and logged.
        damage: what is wrong with the file it wrote, if it claimed success.
    """

    result: ProcessResult
    log: str
    damage: str = ""

    @property
    def succeeded(self) -> bool:
        """Whether the program is there, and whole."""
        return self.result.outcome == "ok" and not self.damage


def run_compiler(
    compiler: CompilerCommand, directory: Path, content: bytes, limits: ProcessLimits, cancelled: threading.Event
) -> CompilerRun:
    """Have ``content``, which is in the compiler's format, compiled in a directory, where the program then is.

    Raises:
        CompileCancelledError: ``cancelled`` was set, by whichever thread.
        ConfigError: the compiler cannot be started.
    """
    (directory / compiler.input_name).write_bytes(content)
    environment = environment_with(compiler.environment)
    result = run_process(compiler.words(), directory, limits, cancelled, environment)
    if result.outcome == "cancelled":
        raise CompileCancelledError(f"{compiler.name}: cancelled after {result.seconds:.1f} s; compile again to go on")
    has_program = result.outcome == "ok" and compiler.output_name
    damage = compiler.damage(directory / compiler.output_name) if has_program else ""
    return CompilerRun(result, _log(directory, compiler.log_name, result), damage)


def _log(directory: Path, name: str, result: ProcessResult) -> str:
    path = directory / name
    logged = path.read_text(errors="replace") if name and path.exists() else ""
    return f"{result.output}\n{logged}" if logged else result.output
