"""What there is to say of a result, for every form of the report."""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version

from ...reporting import Table
from ..search.oracle import COMPILES
from ..search.result import BisectResult
from .minimal_graph import GraphNode, operators_of
from .recipe import Recipe
from .repro import ReproRun

_PACKAGES = ("torch", "jaxlib", "deepinfer-neuron")
_TITLE_OPERATORS = 4
_TITLE_CHARACTERS = 120


def title_of(result: BisectResult, nodes: tuple[GraphNode, ...]) -> str:
    """The failure and the operators that cause it, on one line."""
    wanted = result.failure.signature
    short = [one.removesuffix(".default") for one in operators_of(nodes) if one != "getitem"]
    more = f" and {len(short) - _TITLE_OPERATORS} more" if len(short) > _TITLE_OPERATORS else ""
    names = ", ".join(short[:_TITLE_OPERATORS]) + more
    head = " ".join(part for part in (wanted.code or wanted.outcome, f"on {names}" if names else "") if part)
    text = f"{head}: {wanted.message}" if wanted.message else head
    return text if len(text) <= _TITLE_CHARACTERS else f"{text[: _TITLE_CHARACTERS - 1]}…"


def summary_rows(result: BisectResult, recipe: Recipe, run: ReproRun | None) -> tuple[tuple[str, str], ...]:
    """Names and values of everything that fits a line."""
    rows = [
        ("failure", str(result.failure.signature)),
        ("found in", result.subject),
        ("compiler", result.compiler.fingerprint),
        ("command", " ".join(recipe.command)),
        ("how often", f"the whole program {result.failure.first} runs, the minimal one {result.failure.last}"),
        ("size", f"{operations(result)} operations reduced to {result.reduction.minimal.size}"),
        ("minimal", minimality(result)),
        ("repro.py", f"{run.meaning} when it was run in a process of its own" if run else "was not run"),
        (
            "cost",
            f"{result.cost.probes:,} probes and {result.cost.known:,} known answers in {duration(result.cost.seconds)}",
        ),
        ("at best", f"{result.cost.bound:.1f} probes: log2 of the number of subsets of that size"),
        ("introduced by", result.evidence.introduced_by),
        ("wrong if", result.miscompilation.criterion),
        ("first wrong", first_wrong(result)),
        ("versions", versions()),
    ]
    return tuple((name, value) for name, value in rows if value)


def first_wrong(result: BisectResult) -> str:
    """The first operations whose results are wrong on the right inputs; empty if that is not what was looked for."""
    if not result.miscompilation.criterion:
        return ""
    items = [result.reduction.items[index] for index in result.miscompilation.first_wrong]
    if not items:
        return "no region of the program is wrong by itself, as far as was asked"
    together = f" and {len(items) - 1} operations after it, together" if len(items) > 1 else ""
    line = f", {items[0].line}" if items[0].line else ""
    return f"{items[0].name}{line}{together}, on the right inputs"


def operations(result: BisectResult) -> int:
    """Operations of the whole program."""
    return result.reduction.operations


def minimality(result: BisectResult) -> str:
    """What is known of how small the program is."""
    if not result.complete:
        return "the search was ended early: this is the smallest failing program so far"
    if result.evidence.is_minimal:
        return "yes: without any one of its operations it does not fail in this way"
    return "not shown: some operation could be removed"


def versions() -> str:
    """Of Python, the system and the libraries that made the module."""
    found = [f"Python {platform.python_version()}", platform.platform()]
    for name in _PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)


def model_lines(result: BisectResult) -> list[tuple[str, str]]:
    """Lines of the model, and the operations that were kept of each."""
    by_line: dict[str, list[str]] = {}
    for item in result.reduction.kept_items:
        if not item.is_result:
            by_line.setdefault(item.line or "unknown", []).append(item.text)
    return [(line, text) for line, texts in by_line.items() for text in texts]


def tables_of(result: BisectResult) -> list[Table]:
    """What was tried and what came of it."""
    stages = tuple(
        (one.name, f"{one.before:,}", f"{one.after:,}", f"{one.probes:,}", duration(one.seconds))
        for one in result.cost.stages
        if one.probes or one.before != one.after
    )
    removals = tuple(_removal(text) for text in result.evidence.removals)
    others = tuple(
        (str(number), str(one.signature), f"{one.candidate.size:,}", f"{one.times:,}")
        for number, one in enumerate(result.evidence.others, 1)
    )
    survey = tuple(
        (one.example.text, one.example.line, f"{len(one.items):,}", one.text)
        for one in result.evidence.survey
        if one.text != COMPILES
    )
    tables = [
        Table("What was tried", ("stage", "operations before", "after", "probes", "time"), stages),
        Table("Without one operation", ("operation", "what came of it"), removals),
        Table("Operations that fail alone", ("operation", "line", "times", "what came of it"), survey),
        Table("Also seen", ("file in also_seen/", "failure", "operations", "times"), others),
    ]
    return [table for table in tables if table.rows]


def _removal(text: str) -> tuple[str, str]:
    name, _, outcome = text.partition(": ")
    return name, outcome


def duration(seconds: float) -> str:
    """Such as ``7.5 s``, ``3 min 20 s`` or ``1 h 5 min``."""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
