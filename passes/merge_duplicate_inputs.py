"""Let one input stand for all inputs that are the same memory seen the same way.

The others keep their places in the signature and lose their uses. An input that the graph
updates is never merged, nor are two that a pass has arranged in different ways.
"""

from __future__ import annotations

from collections.abc import Hashable

from torch import fx

from .context import PassContext, placeholders


def merge_duplicate_inputs(module: fx.GraphModule, context: PassContext) -> int:
    """Redirect the uses of later duplicates to the first input with their key; returns how many had uses."""
    updated = set(context.aliases.values())
    first: dict[Hashable, fx.Node] = {}
    changed = 0
    for position, (node, key) in enumerate(zip(placeholders(module), context.input_keys, strict=False)):
        if position in updated:
            continue
        kept = first.setdefault((key, context.layouts.get(position)), node)
        if kept is not node and node.users:
            node.replace_all_uses_with(kept)
            changed += 1
    return changed
