"""Write assignments through a boolean mask as a choice between two values.

An indexed store with a mask has as many rows as the mask has true elements, which no static program has; Trainium
compilers made wrong values of it (aws-neuron-sdk#1381). Where one value is stored for all of them it is
``torch.where``. A value for each true element stays, and the lowering refuses it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from .context import PassContext, emit_before

aten = torch.ops.aten


def choose_by_mask(module: fx.GraphModule, context: PassContext) -> int:
    """Rewrite stores of one value through a mask; returns how many there were."""
    changed = 0
    for node in list(module.graph.nodes):
        if node.target is aten.index_put.default and _stores_one_value(*node.args):
            node.replace_all_uses_with(_choice(node, *node.args))
            module.graph.erase_node(node)
            changed += 1
    return changed


def _stores_one_value(target: fx.Node, indices: list[Any], values: fx.Node, accumulate: bool = False) -> bool:
    if len(indices) != 1 or indices[0] is None or indices[0].meta["val"].dtype is not torch.bool:
        return False
    return all(size == 1 for size in _leading(target, indices[0], values))


def _leading(target: fx.Node, mask: fx.Node, values: fx.Node) -> tuple[int, ...]:
    """The sizes of the values' dimensions in front of the window that one true element addresses."""
    window = target.meta["val"].dim() - mask.meta["val"].dim()
    shape = tuple(values.meta["val"].shape)
    return shape[: max(len(shape) - window, 0)]


def _choice(
    node: fx.Node, target: fx.Node, indices: list[fx.Node], values: fx.Node, accumulate: bool = False
) -> fx.Node:
    (mask,) = indices
    window = target.meta["val"].dim() - mask.meta["val"].dim()
    shape = tuple(values.meta["val"].shape)[len(_leading(target, mask, values)) :]
    value = emit_before(node, aten.view.default, values, list(shape))
    if accumulate:
        value = emit_before(node, aten.add.Tensor, target, value)
    wide = emit_before(node, aten.view.default, mask, [*mask.meta["val"].shape, *[1] * window])
    return emit_before(node, aten.where.self, wide, value, target)
