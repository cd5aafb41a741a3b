"""How a compiler is started on the minimal program, and what counts as the failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ...compiler.targets.command import CompilerCommand
from ...compiler.targets.process import ProcessLimits
from ..probes.failure_signature import Match
from ..search.result import BisectResult
from ..subjects.render import render
from .accuracy_case import AccuracyCase


@dataclass(frozen=True)
class Recipe:
    """Everything that the failure needs besides the compiler itself.

    Attributes:
        command: words, in which ``{input}`` and ``{output}`` stand for the names of the two files.
        input_name: of the file in the directory that the compiler is started in.
        output_name: of the file that it has to write there; empty if its exit status alone counts.
        module: what ``input_name`` holds: the smallest failing program in the compiler's format.
        format: name of that format.
        log_name: file in which the compiler says more than it prints; empty if there is none.
        environment: variables besides those there are.
        seconds, memory_bytes: after which a run is killed; None for no limit.
        match: what has to be the same of a failure, see ``signature.matches``.
        accuracy: what the program is run on if it compiles and computes something else; ``module`` is StableHLO then.
    """

    command: Sequence[str]
    input_name: str
    output_name: str
    module: bytes
    format: str = "mlir"
    log_name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    memory_bytes: int | None = None
    match: Match = "signature"
    accuracy: AccuracyCase | None = None


def make_recipe(
    result: BisectResult,
    compiler: CompilerCommand,
    limits: ProcessLimits | None = None,
    match: Match = "signature",
    accuracy: AccuracyCase | None = None,
) -> Recipe:
    """The recipe for the smallest program that was found.

    Args:
        result: of the bisection.
        compiler: that it was made with; ``limits``: that its probes had.
        match: what its probes compared.
        accuracy: what the program is run on if it computes something else.

    Raises:
        LoweringError: the program cannot be written in the compiler's format.
    """
    limits = limits or ProcessLimits()
    smallest = result.reduction.minimal if compiler.format == "python" else result.reduction.smallest_module
    # The script of an accuracy case compiles by the target, which takes StableHLO and makes its own format of it.
    format = compiler.format if accuracy is None else "mlir"
    return Recipe(
        command=compiler.command,
        input_name=compiler.input_name,
        output_name=compiler.output_name,
        module=render(smallest, compiler.format) if accuracy is None else result.reduction.minimal.module,
        format=format,
        log_name=compiler.log_name,
        environment=compiler.environment,
        seconds=limits.seconds,
        memory_bytes=limits.memory_bytes,
        match=match,
        accuracy=accuracy,
    )
