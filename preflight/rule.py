"""What a rule and a finding are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from ..passes.target_facts import TRAINIUM
from .module_view import ModuleView

Evidence = Literal["documented", "reported", "inferred"]
"""documented: among AWS Neuron's "Neuron Compiler Error Codes"; reported: by its users; inferred: from either."""

Check = Callable[[ModuleView, str], Iterator[tuple[Any, str]]]
"""Yields operations of a module that break a rule on a target, each with what is wrong about it."""


@dataclass(frozen=True)
class Rule:
    """Something that a compiler refuses, or compiles to wrong values.

    Attributes:
        code: the compiler's error, such as ``EVRF029``; ``-`` where it has none.
        evidence: how the rule is known.
        breaks: the smallest thing that breaks it.
        nearly: one that does not quite.
        check: finds what breaks it.
        remedy: what to write instead.
        targets: whose compiler it is about.
    """

    code: str
    evidence: Evidence
    breaks: str
    nearly: str
    check: Check
    remedy: str
    targets: tuple[str, ...] = TRAINIUM


@dataclass(frozen=True)
class Finding:
    """Operations that break a rule in the same way at the same line of the model.

    Attributes:
        code: that of the rule.
        evidence: that of the rule.
        operation: name of the operation, such as ``stablehlo.sort``.
        line: of the model, such as ``model/moe.py:80``; None if unknown.
        detail: what is wrong.
        remedy: what to write instead.
        count: how many operations.
    """

    code: str
    evidence: Evidence
    operation: str
    line: str | None
    detail: str
    remedy: str
    count: int

    def __str__(self) -> str:
        code = "wrong values" if self.code == "-" else f"NCC_{self.code}"
        where = f" at {self.line}" if self.line else ""
        times = f" ({self.count} times)" if self.count > 1 else ""
        return f"{code}: {self.operation}{where}{times}: {self.detail}; {self.remedy}"
