"""How work says what it is doing, and what came of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

Say = Callable[[str], None]
"""Called with a line of text before each thing that takes a while."""

Count = Callable[[int, int], None]
"""Called with (done, total) of whatever is counted."""


@dataclass(frozen=True)
class Table:
    """Rows with a cell for each column; cells that are numbers are shown at the right of their column.

    Attributes:
        title: a line above it; empty for none.
        columns: their names; none for rows that speak for themselves.
        rows: what is in them, from top to bottom.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
