"""The programs of a result in the forms that people and compilers read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ...errors import LoweringError
from ..search.result import BisectResult, OtherFailure
from ..subjects.graph_text import graph_text
from ..subjects.render import render
from ..subjects.subject import Candidate

ALSO_SEEN = "also_seen"


@dataclass(frozen=True)
class ProgramFile:
    """A file of a result.

    Attributes:
        name: relative to the directory of the result.
        content: its bytes.
        title: what it is, if people read it in the report; empty otherwise.
    """

    name: str
    content: bytes
    title: str = ""


def program_files(result: BisectResult) -> list[ProgramFile]:
    """Every program of a result; a form that a module does not have, such as an HLO proto, is left out."""
    files = [
        *_graph(result.reduction.minimal),
        *_forms(result.reduction.minimal, "minimal", "The minimal program in StableHLO"),
    ]
    if result.reduction.smallest_module != result.reduction.minimal:
        files += _forms(result.reduction.smallest_module, "smallest", "The same, reduced further as a module")
    if result.evidence.good is not None:
        files.append(ProgramFile("good.mlir", render(result.evidence.good, "text")))
    for number, other in enumerate(result.evidence.others, 1):
        files += _other(number, other)
    return files


def _graph(candidate: Candidate) -> Iterator[ProgramFile]:
    if candidate.graph is not None:
        text = graph_text(candidate.graph, candidate.aliases)
        yield ProgramFile("minimal.fx.txt", f"{text.rstrip()}\n".encode(), "The minimal graph in FX")


def _forms(candidate: Candidate, name: str, title: str) -> Iterator[ProgramFile]:
    yield ProgramFile(f"{name}.mlir", render(candidate, "text"), title)
    yield ProgramFile(f"{name}.mlirbc", render(candidate, "mlir"))
    try:
        yield ProgramFile(f"{name}.hlo.pb", render(candidate, "hlo"))
    except LoweringError:
        return


def _other(number: int, other: OtherFailure) -> Iterator[ProgramFile]:
    yield ProgramFile(f"{ALSO_SEEN}/{number}.mlir", render(other.candidate, "text"))
    text = f"{other.signature}\nseen {other.times} times; the smallest program has {other.candidate.size} operations\n"
    yield ProgramFile(f"{ALSO_SEEN}/{number}.txt", text.encode())
