"""Golden files and comparisons as tables for a terminal."""

from __future__ import annotations

from ..model.accuracy.compare import Comparison
from ..model.accuracy.golden import Golden
from ..reporting import Table


def golden_table(golden: Golden) -> Table:
    """One row a prompt: how far two runs of the reference are apart, and how narrow its choices were."""
    rows = tuple(
        (
            name,
            prompt.length,
            len(prompt.tokens) - prompt.length,
            _short(prompt.noise.rel),
            _short(prompt.noise.one_minus_cos),
            _short(prompt.noise.kl),
            _short(min(prompt.margins)),
        )
        for name, prompt in golden.prompts.items()
    )
    columns = ("prompt", "tokens", "generated", "noise rel", "noise 1-cos", "noise KL", "least margin")
    return Table(f"golden values, {golden.mode}", columns, rows)


def comparison_tables(comparison: Comparison) -> list[Table]:
    """Logits, residual streams by layer and other values; a kind of which there is nothing has no table."""
    tables = [_logits(comparison), _layers(comparison), _values(comparison)]
    return [table for table in tables if table.rows]


def _logits(comparison: Comparison) -> Table:
    rows = tuple(
        (
            row.name,
            f"{row.error.argmax:.1%}",
            _short(row.error.rel),
            _short(row.error.one_minus_cos),
            _short(row.error.kl),
            "-" if row.noise_rel is None else _short(row.noise_rel),
            "-" if row.noise_rel is None else "yes" if row.agrees else "NO",
        )
        for row in comparison.logits
    )
    return Table("logits, worst row", ("name", "argmax", "rel", "1-cos", "KL", "noise rel", "agrees"), rows)


def _layers(comparison: Comparison) -> Table:
    by_layer = zip(*(row.rel for row in comparison.layers), strict=True)
    rows = tuple((layer, *(_short(error) for error in errors)) for layer, errors in enumerate(by_layer))
    columns = ("layer", *(row.name for row in comparison.layers))
    return Table("residual streams after each layer, rel of the worst position", columns, rows)


def _values(comparison: Comparison) -> Table:
    rows = tuple(
        (
            row.name,
            row.different,
            row.elements,
            "-" if row.rel is None else _short(row.rel),
            "-" if row.ulps is None else row.ulps,
        )
        for row in comparison.values
    )
    return Table("other values", ("name", "different", "elements", "rel", "max ulps"), rows)


def _short(value: float) -> str:
    return f"{value:.1e}"
