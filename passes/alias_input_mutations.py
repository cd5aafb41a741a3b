"""Turn the in-place updates at the end of a graph into outputs that alias their inputs.

AOTAutograd leaves ``aten.copy_(placeholder, value)`` at the end of a graph for each input that the
model updated. The value becomes one more output, and ``context.aliases`` says which input it belongs
to; a target then writes it into that input's own memory. An output that returns an input, or an
updated value, becomes a copy of its last value, so that only the added outputs alias anything.
"""

from __future__ import annotations

import torch
from torch import fx

from .context import PassContext, arguments, clone_before, output_node, placeholders


def alias_input_mutations(module: fx.GraphModule, context: PassContext) -> int:
    """Replace trailing copies by aliased outputs; returns the number of updates and added clones."""
    inputs = placeholders(module)
    updates = [node for node in module.graph.nodes if node.target is torch.ops.aten.copy_.default]
    updates = [node for node in updates if node.args[0] in inputs]
    values = {node.args[0]: node.args[1] for node in updates}
    for node in updates:
        node.replace_all_uses_with(node.args[1])
        module.graph.erase_node(node)

    output = output_node(module)
    results = list(arguments(output)[0])
    changed = len(updates)
    for position, result in enumerate(results):
        if result in inputs or result in values.values():
            results[position] = clone_before(output, values.get(result, result))
            changed += 1
    for target, value in values.items():
        if value in inputs:
            value = clone_before(output, value)
        context.aliases[len(results)] = inputs.index(target)
        results.append(value)
    output.args = (tuple(results),)
    return changed
