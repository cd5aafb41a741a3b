"""What is reduced: a program made of items, every subset of which is a graph that a compiler can be given."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol

from torch import fx


@dataclass(frozen=True)
class Item:
    """One operation, or one result that the program returns.

    Attributes:
        name: in the program, such as ``%mm_3`` or ``result 0``.
        text: the whole operation on one line, for people.
        line: of the model, such as ``model/moe.py:80``; empty if it is not known.
        group: name of the region that it belongs to; items of one region follow each other.
        reads: indices of the items whose results it uses, all smaller than its own.
        is_result: whether it is a result that is returned, and no operation.
    """

    name: str
    text: str
    line: str = ""
    group: str = ""
    reads: tuple[int, ...] = ()
    is_result: bool = False


@dataclass(frozen=True)
class Candidate:
    """A graph that a compiler is given.

    Attributes:
        size: how many operations it has.
        module: as StableHLO bytecode with source locations.
        graph: the FX graph that it was lowered from; None if there is none.
        aliases: output index -> index of the input whose memory it reuses.
        runtime_zero: whether the module takes one more int32 scalar, always zero.
        inputs_digest: of the values of the graph's inputs; empty if they are not known, or do not matter.
    """

    size: int
    module: bytes
    graph: fx.GraphModule | None = field(default=None, compare=False, repr=False)
    aliases: Mapping[int, int] = field(default_factory=dict)
    runtime_zero: bool = False
    inputs_digest: str = ""

    @cached_property
    def digest(self) -> str:
        """sha256 of the module, and of the values of its inputs if they are known: the same for equal candidates."""
        return hashlib.sha256(self.module + self.inputs_digest.encode()).hexdigest()


class Subject(Protocol):
    """A program that can be cut down. Candidates are the same bytes in every process."""

    @property
    def items(self) -> Sequence[Item]:
        """Operations in the order of the program, then the results that it returns."""
        ...

    def candidate(self, keep: Collection[int]) -> Candidate:
        """The program of these items alone; all items give the program as it was.

        What a kept operation reads of one that is not kept becomes an input. Results of kept operations that no kept
        operation reads are returned, beside those whose result items are kept.

        Raises:
            GraphError: there is no such program, for example without any operation.
            LoweringError: it cannot be lowered.
        """
        ...
