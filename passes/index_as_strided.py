"""Write views by strides as gathers and scatters on the flattened tensor.

AOTAutograd uses ``as_strided`` to take several overlapping inputs out of the memory they share. On a
contiguous tensor it reads element ``offset + sum(i * stride)``, which is an index like any other. The offset counts
from the start of the memory, in which the tensor itself may begin later.
"""

from __future__ import annotations

import torch
from torch import fx

from ..errors import GraphError
from .context import REACH, PassContext, emit_before
from .locations import source_line

aten = torch.ops.aten

_VIEWS = {aten.as_strided.default, aten.as_strided_copy.default}
_SCATTERS = {aten.as_strided_scatter.default, torch.ops.prims.as_strided_scatter.default}


def index_as_strided(module: fx.GraphModule, context: PassContext) -> int:
    """Rewrite strided views and scatters of contiguous tensors; returns how many there were."""
    changed = 0
    for node in list(module.graph.nodes):
        if node.target in _VIEWS and node.args[0].meta["val"].is_contiguous():
            _replace(node, _gather(node, *node.args))
            changed += 1
        elif node.target in _SCATTERS and node.args[0].meta["val"].is_contiguous():
            _replace(node, _scatter(node, *node.args))
            changed += 1
    return changed


def _gather(anchor: fx.Node, source: fx.Node, size: list[int], stride: list[int], offset: int | None = None) -> fx.Node:
    offset = _offset_within(anchor, source, size, stride, offset)
    positions = _positions(anchor, size, stride, offset)
    flat = emit_before(anchor, aten.view.default, source, [-1])
    loaded = emit_before(anchor, aten.index.Tensor, flat, [positions])
    last = sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    loaded.meta[REACH] = (offset, offset + last + 1)
    return loaded


def _scatter(
    anchor: fx.Node, base: fx.Node, source: fx.Node, size: list[int], stride: list[int], offset: int | None = None
) -> fx.Node:
    offset = _offset_within(anchor, base, size, stride, offset)
    positions = _positions(anchor, size, stride, offset)
    flat = emit_before(anchor, aten.view.default, base, [-1])
    stored = emit_before(anchor, aten.index_put.default, flat, [positions], source)
    return emit_before(anchor, aten.view.default, stored, list(base.meta["val"].shape))


def _offset_within(anchor: fx.Node, source: fx.Node, size: list[int], stride: list[int], offset: int | None) -> int:
    """The offset in a contiguous tensor; raises GraphError for elements outside of it, which no program is given."""
    value = source.meta["val"]
    first = 0 if offset is None else offset - value.storage_offset()
    last = first + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    if 0 not in size and not 0 <= first <= last < value.numel():
        line = source_line(anchor)
        where = f" at {line}" if line else ""
        raise GraphError(
            f"{anchor.target}{where} reaches elements {first} to {last} of a tensor of {value.numel()}: take the view "
            "of the tensor that holds them all"
        )
    return first


def _positions(anchor: fx.Node, size: list[int], stride: list[int], offset: int) -> fx.Node:
    """Flat positions int64 of shape ``size``."""
    positions = emit_before(anchor, aten.full.default, list(size), offset, dtype=torch.int64)
    for dimension, (extent, step) in enumerate(zip(size, stride, strict=True)):
        counted = emit_before(anchor, aten.arange.start_step, 0, extent * max(step, 1), max(step, 1), dtype=torch.int64)
        steps = counted if step else emit_before(anchor, aten.mul.Tensor, counted, 0)
        shape = [extent if other == dimension else 1 for other in range(len(size))]
        positions = emit_before(
            anchor, aten.add.Tensor, positions, emit_before(anchor, aten.view.default, steps, shape)
        )
    return positions


def _replace(node: fx.Node, replacement: fx.Node) -> None:
    node.replace_all_uses_with(replacement)
    node.graph.erase_node(node)
