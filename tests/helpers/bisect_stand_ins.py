"""Stand-ins for what a bisection is made of: subjects without graphs, and probes without compilers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from deepinfer_neuron.bisection.probes.verdict import Signature, Verdict
from deepinfer_neuron.bisection.subjects.subject import Candidate, Item
from deepinfer_neuron.compiler.lowering.context import shared_context
from deepinfer_neuron.errors import CompileCancelledError, GraphError
from jaxlib.mlir import ir

CRASH = Signature("error", "EBVF030", "too many instructions")
OTHER = Signature("signal", "SIGSEGV")


@dataclass
class NumberedSubject:
    """Operations without meaning: a candidate's module is the list of its operations' numbers."""

    operations: int
    results: int = 0
    groups: int = 1
    lines: dict[int, str] = field(default_factory=dict)

    @property
    def items(self) -> list[Item]:
        size = -(-self.operations // self.groups)
        calls = [
            Item(f"%{number}", f"operation {number}", self.lines.get(number, ""), f"group {number // size}")
            for number in range(self.operations)
        ]
        return calls + [Item(f"result {number}", "", "", "", (), True) for number in range(self.results)]

    def candidate(self, keep: Collection[int]) -> Candidate:
        kept = sorted(keep)
        operations = [number for number in kept if number < self.operations]
        if not operations:
            raise GraphError("a program without any operation")
        return Candidate(len(operations), ",".join(map(str, kept)).encode())


def members(candidate: Candidate) -> set[int]:
    """The items of a candidate of a numbered subject."""
    return {int(number) for number in candidate.module.decode().split(",")}


class StandInProbe:
    """Answers at once, by a function of a candidate's items; keeps what it was asked."""

    def __init__(self, answer: Callable[[set[int]], Signature | None]):
        self.answer = answer
        self.asked: list[set[int]] = []
        self._lock = threading.Lock()

    def __call__(self, candidate: Candidate, cancel: threading.Event) -> Verdict:
        with self._lock:
            self.asked.append(members(candidate))
        if cancel.is_set():
            raise CompileCancelledError("cancelled")
        return Verdict(self.answer(members(candidate)), 0.0, "what a compiler says")


class ModuleProbe:
    """A stand-in for a compiler that fails by the text of the module it is given; keeps the texts."""

    def __init__(self, answer: Callable[[str], Signature | None]):
        self.answer = answer
        self.asked: list[str] = []
        self._lock = threading.Lock()

    def __call__(self, candidate: Candidate, cancel: threading.Event) -> Verdict:
        with self._lock, shared_context():
            text = str(ir.Module.parse(candidate.module))
            self.asked.append(text)
            return Verdict(self.answer(text), 0.0, "what a compiler says")
