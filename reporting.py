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
    """A title, the names of the columns, and rows with a value for each of them."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]
