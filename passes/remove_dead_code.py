"""Remove nodes whose value nobody uses.

Inputs keep their places; compilers may drop the unused ones from a program, so their indices are recorded.
"""

from __future__ import annotations

from torch import fx

from .context import PassContext, erase_unused, placeholders


def remove_dead_code(module: fx.GraphModule, context: PassContext) -> int:
    """Erase unused nodes and leave ``context.unused_inputs``; returns how many nodes went."""
    erased = erase_unused(module.graph)
    context.unused_inputs = [position for position, node in enumerate(placeholders(module)) if not node.users]
    return erased
