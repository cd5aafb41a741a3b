"""How a step is traced again with fewer passes."""

from __future__ import annotations

from collections.abc import Callable

from ...compiler.graphs.graph_file import SavedGraph

StepTracer = Callable[[int | None], SavedGraph]
"""The graph after so many of the passes that are not required; None for as many as the environment says."""
