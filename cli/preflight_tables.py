"""What a preflight found, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

from ..preflight.histogram import TypedOperation
from ..preflight.rule import Finding
from ..preflight.rules import RULES
from ..preflight.run import PreflightReport
from ..reporting import Table

Kind = TypeVar("Kind", bound=Hashable)


def findings_table(report: PreflightReport) -> Table:
    """A row for each finding of each batch size."""
    rows = tuple((step.batch_size, *_cells(finding)) for step in report.steps for finding in step.findings)
    verdict = "neuronx-cc would refuse or miscompile:" if rows else "nothing to refuse"
    columns = ("batch", "code", "known from", "operation", "times", "line", "what", "instead")
    return Table(f"{report.target}, mode {report.mode}: {verdict}", columns, rows)


def rules_table(target: str) -> Table:
    """A row for each rule about the target."""
    rows = tuple(
        (_code(rule.code), rule.evidence, rule.breaks, rule.nearly, rule.remedy)
        for rule in RULES
        if target in rule.targets
    )
    return Table(f"Rules for {target}", ("code", "known from", "breaks it", "nearly does", "instead"), rows)


def histogram_tables(report: PreflightReport) -> list[Table]:
    """Operations by name and element types, element types alone, and what there should be none of, by batch size."""
    histograms = [step.histogram for step in report.steps]
    kinds = [{one.operation: one.count for one in histogram.operations} for histogram in histograms]
    sizes = tuple(f"B={step.batch_size}" for step in report.steps)
    where = f"{report.target}, mode {report.mode}, {report.steps[-1].programs} programs"
    return [
        Table(
            f"Operations of the lowered step: {where}",
            ("operation", "takes", "makes", *sizes),
            tuple((*_typed_cells(kind), *counts) for kind, counts in _rows(kinds)),
        ),
        Table(
            "Operations that take or make values of an element type",
            ("element type", *sizes),
            tuple((element, *counts) for element, counts in _rows([one.elements for one in histograms])),
        ),
        Table(
            "What a Neuron core should not be given",
            ("what", *sizes),
            tuple((what, *counts) for what, counts in _rows([one.unwanted for one in histograms])),
        ),
    ]


def _rows(counts: Sequence[Mapping[Kind, int]]) -> list[tuple[Kind, list[int]]]:
    """Each kind with its count in every mapping, in the order in which the last mapping has them."""
    kinds = dict.fromkeys(kind for one in reversed(counts) for kind in one)
    return [(kind, [one.get(kind, 0) for one in counts]) for kind in kinds]


def _typed_cells(operation: TypedOperation) -> tuple[object, ...]:
    return operation.name, " ".join(operation.takes), " ".join(operation.makes)


def _code(code: str) -> str:
    return code if code == "-" else f"NCC_{code}"


def _cells(finding: Finding) -> tuple[object, ...]:
    return (
        _code(finding.code),
        finding.evidence,
        finding.operation,
        finding.count,
        finding.line or "",
        finding.detail,
        finding.remedy,
    )
