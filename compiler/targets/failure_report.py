"""What to tell people when neuronx-cc did not compile a module."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from .command import CompilerCommand, CompilerRun
from .diagnostics import Diagnostic, find_cause, parse_diagnostics
from .error_codes import BISECT
from .explanation import describe

_NAMED_OPERATION = re.compile(r"\b[Oo]p(?:eration|code) \(?([a-z][\w-]*)")
_LAST_LINES = 8
_MODEL_LINES = 4
_NEXT = {
    "timeout": "allow more seconds with DEEPINFER_NEURON_CC_TIMEOUT, or cut the step into smaller programs with "
    "--mode regions",
    "out of memory": "allow more with DEEPINFER_NEURON_CC_MEMORY_GB, or cut the step into smaller programs with "
    "--mode regions",
}

FindLines = Callable[[str], Sequence[str]]
"""Lines of the model that an HLO opcode comes from."""


@dataclass(frozen=True)
class FailedRun(CompilerRun):
    """A run that left no program."""

    @cached_property
    def diagnostics(self) -> tuple[Diagnostic, ...]:
        """The errors in the log."""
        return parse_diagnostics(self.log)

    @property
    def cause(self) -> Diagnostic | None:
        """The error that the others follow from."""
        return find_cause(self.diagnostics)


def report_failure(compiler: CompilerCommand, runs: Sequence[FailedRun], find_lines: FindLines) -> str:
    """The message of a compile error: the first line is the cause, the last ones the command to repeat it by.

    Args:
        compiler: that was run.
        runs: all tries in order, at least one.
        find_lines: asked for the model's lines when the compiler names only an operation.
    """
    last = runs[-1]
    tries = f" in each of {len(runs)} tries" if len(runs) > 1 else ""
    lines = [f"{compiler.name}: {_headline(last, find_lines)}"]
    lines += [f"  also seen: {_title(one)}" for one in last.diagnostics if one != last.cause]
    lines += [f"  an earlier try: {_ending(run)}" for run in runs[:-1] if _ending(run) != _ending(last)]
    lines += [f"  neuronx-cc {last.result.ending}{tries}: {shlex.join(compiler.words())}"]
    return "\n".join(lines)


def _headline(run: FailedRun, find_lines: FindLines) -> str:
    cause = run.cause
    if run.result.outcome in ("error", "signal") and cause is not None:
        return describe(_located(cause, find_lines))
    if run.damage:
        return f"neuronx-cc reported success without a program: {run.damage}\n  next: compile it again"
    text = f"neuronx-cc {run.result.ending}"
    printed = [line for line in run.log.splitlines() if line.strip()][-_LAST_LINES:]
    rows = [f"  | {line[:200]}" for line in printed]
    return "\n".join([text, *rows, f"  next: {_NEXT.get(run.result.outcome, BISECT)}"])


def _located(cause: Diagnostic, find_lines: FindLines) -> Diagnostic:
    """The cause with the model's lines, if the compiler names an operation and no line."""
    named = _NAMED_OPERATION.search(cause.message)
    opcode = cause.opcode or (named[1] if named else "")
    if cause.source or not opcode:
        return cause
    lines = find_lines(opcode)
    more = f" or {len(lines) - _MODEL_LINES} more" if len(lines) > _MODEL_LINES else ""
    return replace(cause, opcode=opcode, source=" or ".join(lines[:_MODEL_LINES]) + more)


def _ending(run: FailedRun) -> str:
    cause = run.cause
    return run.damage or (_title(cause) if cause else f"neuronx-cc {run.result.outcome} {run.result.status}")


def _title(diagnostic: Diagnostic) -> str:
    return describe(diagnostic).splitlines()[0]
