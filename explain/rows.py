"""Regions in rows down the page: a layer a row, in the order of execution."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .step import ExplainedRegion

ROW_LIMIT = 6
"""Regions side by side; a layer of more goes on in the next row."""


@dataclass(frozen=True)
class Row:
    """A row's name, and its regions from left to right with what each is called within the row."""

    name: str
    regions: tuple[ExplainedRegion, ...]
    labels: tuple[str, ...]


def arrange_rows(regions: Sequence[ExplainedRegion]) -> list[Row]:
    """Put neighbours that belong to one layer into one row; a name without a number is a row of its own."""
    rows: list[Row] = []
    previous = None
    for region in regions:
        layer, label = split_name(region.name)
        if layer is not None and layer == previous and len(rows[-1].regions) < ROW_LIMIT:
            last = rows.pop()
            rows.append(Row(last.name, (*last.regions, region), (*last.labels, label)))
        else:
            rows.append(Row(layer or "", (region,), (label,)))
        previous = layer
    return rows


def split_name(name: str) -> tuple[str | None, str]:
    """The layer of a region and its name there: ``layers.3.attention`` is ``layers.3`` and ``attention``.

    A layer's name ends with the last number among the parts of the region's name that dots separate; a region made
    of several stages belongs to the layer of the first. Without a number there is no layer.
    """
    first, plus, others = name.partition("+")
    parts = first.split(".")
    numbers = [index for index, part in enumerate(parts) if part.isdigit()]
    if not numbers:
        return None, name
    end = numbers[-1] + 1
    return ".".join(parts[:end]), (".".join(parts[end:]) or first) + plus + others
