"""Check a module against the rules."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from jaxlib.mlir import ir

from ..compiler.lowering.context import shared_context
from ..passes.target_facts import facts_of
from .module_view import ModuleView, line_of
from .rule import Finding, Rule
from .rules import RULES


def check_module(bytecode: bytes, target: str, rules: Sequence[Rule] = RULES) -> list[Finding]:
    """What the compiler of ``target`` would refuse in a StableHLO module, or compile to wrong values.

    Args:
        bytecode: the module as MLIR bytecode or text, with its entry function named ``main``.
        target: such as ``trn2``.
        rules: those that are checked if they are about the target.

    Raises:
        ConfigError: an unknown target.
    """
    facts_of(target)
    with shared_context():
        view = ModuleView(ir.Module.parse(bytecode))
        return [finding for rule in rules if target in rule.targets for finding in _apply(rule, view, target)]


def merge_findings(findings: Iterable[Finding]) -> list[Finding]:
    """Findings that differ in nothing but their counts become one."""
    merged: dict[Finding, int] = {}
    for finding in findings:
        key = replace(finding, count=0)
        merged[key] = merged.get(key, 0) + finding.count
    return [replace(key, count=count) for key, count in merged.items()]


def _apply(rule: Rule, view: ModuleView, target: str) -> list[Finding]:
    hits = Counter(_described(operation, detail) for operation, detail in rule.check(view, target))
    return [
        Finding(rule.code, rule.evidence, name, line, detail, rule.remedy, count)
        for (name, line, detail), count in hits.items()
    ]


def _described(operation: Any, detail: str) -> tuple[str, str | None, str]:
    return operation.name, line_of(operation), detail
