"""How work says what it is doing."""

from __future__ import annotations

from collections.abc import Callable

Say = Callable[[str], None]
"""Called with a line of text before each thing that takes a while."""
