"""Remove nodes whose value nobody uses; inputs keep their places."""

from __future__ import annotations

from torch import fx

from .context import PassContext


def remove_dead_code(module: fx.GraphModule, context: PassContext) -> int:
    """Erase unused nodes; returns how many went."""
    before = len(module.graph.nodes)
    module.graph.eliminate_dead_code()
    return before - len(module.graph.nodes)
