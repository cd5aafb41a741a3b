"""Levels 1 to 3 as tables for a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from ..reporting import Table
from ..verification.operator_comparison import OperatorComparison
from ..verification.pass_comparison import PassComparison
from ..verification.region_comparison import RegionComparison
from ..verification.run import VerifyReport


def verify_tables(report: VerifyReport) -> list[Table]:
    """Passes and regions by batch size, ``!`` where they miss; operators, one row an overload; causes of misses."""
    tables = [_pass_table(report), _operator_table(report), _region_table(report), _cause_table(report)]
    return [table for table in tables if table.rows]


def _pass_table(report: VerifyReport) -> Table:
    rows = tuple(
        (of_pass[0].name, sum(one.elements for one in of_pass), *map(_describe_pass, of_pass))
        for of_pass in zip(*(batch.passes for batch in report.batches), strict=True)
    )
    columns = ("pass", "elements", *(f"batch {batch.batch_size}" for batch in report.batches))
    return Table("Level 1: the graph before and after every pass, in eager PyTorch; places changed", columns, rows)


def _describe_pass(comparison: PassComparison) -> str:
    bits = f"; {comparison.mismatched} elements off !" if comparison.mismatched else ""
    return f"{comparison.changed}{bits}"


def _operator_table(report: VerifyReport) -> Table:
    overloads: dict[str, list[OperatorComparison]] = {}
    for batch in report.batches:
        for comparison in batch.operators:
            overloads.setdefault(comparison.operator, []).append(comparison)
    columns = ("operator", "signatures", "calls", "elements", "differing", "ulps", "allowed", "unexplained")
    rows = tuple(
        (
            operator,
            len({comparison.signature for comparison in comparisons}),
            sum(comparison.calls for comparison in comparisons),
            sum(comparison.elements for comparison in comparisons),
            sum(comparison.mismatched for comparison in comparisons),
            _worst(comparisons) if any(comparison.mismatched for comparison in comparisons) else "exact",
            "by its parts" if comparisons[0].allowed_ulps is None else str(comparisons[0].allowed_ulps),
            sum(comparison.unexplained for comparison in comparisons),
        )
        for operator, comparisons in sorted(overloads.items())
    )
    title = f"Level 2: every operator against eager on its own inputs, {report.numerics} numerics"
    return Table(title, columns, rows)


def _worst(comparisons: Sequence[OperatorComparison] | Sequence[RegionComparison]) -> str:
    distances = [comparison.max_ulps for comparison in comparisons]
    known = [distance for distance in distances if distance is not None]
    return f"{max(known):.2g}" if len(known) == len(distances) else "not a distance"


def _region_table(report: VerifyReport) -> Table:
    columns = ("region", "elements", *(f"batch {batch.batch_size}" for batch in report.batches))
    rows = tuple(
        (of_region[0].region, sum(one.elements for one in of_region), *map(_describe, of_region))
        for of_region in zip(*(batch.regions for batch in report.batches), strict=True)
    )
    title = f"Level 3: every region fed what eager was fed, {report.numerics} numerics; elements off"
    return Table(title, columns, rows)


def _cause_table(report: VerifyReport) -> Table:
    causes: dict[str, list[RegionComparison]] = {}
    for batch in report.batches:
        for region in batch.regions:
            for piece in region.pieces:
                causes.setdefault(piece.region, []).append(piece)
    rows = tuple(
        (
            cause,
            len(pieces),
            sum(piece.elements for piece in pieces),
            sum(piece.different for piece in pieces),
            _worst(pieces),
            sum(piece.mismatched for piece in pieces),
        )
        for cause, pieces in sorted(causes.items())
    )
    return Table(
        "Where regions beyond the bar begin to differ: their pieces, each fed what eager was fed",
        ("piece ends in", "pieces", "elements", "differing", "bf16 ulps", "off"),
        rows,
    )


def _describe(comparison: RegionComparison) -> str:
    if comparison.mismatched == 0:
        return "exact" if comparison.different == 0 else "0"
    distance = "not a distance" if comparison.max_ulps is None else f"{comparison.max_ulps:.3g} ulp"
    return f"{comparison.mismatched} ({distance}){'' if comparison.within_bar else ' !'}"
