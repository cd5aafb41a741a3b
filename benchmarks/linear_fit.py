"""The straight line through times of graphs of several sizes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import linear_regression


@dataclass(frozen=True)
class LinearFit:
    """The least-squares line ``milliseconds = fixed_ms + ms_per_node * nodes``."""

    fixed_ms: float
    ms_per_node: float


def fit_line(nodes: Sequence[int], milliseconds: Sequence[float]) -> LinearFit:
    """The line through at least two points with different ``nodes``."""
    line = linear_regression(nodes, milliseconds)
    return LinearFit(line.intercept, line.slope)
