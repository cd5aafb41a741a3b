"""Which integers of a graph are the bits of floats: caches that carry bfloat16 as int16 are no numbers to compare."""

from __future__ import annotations

import torch
from torch import Tensor, fx

CARRIED = "carried"
"""Key of a node's metadata: the floating dtype whose bits its integers hold."""

aten = torch.ops.aten

_MOVES = frozenset(
    {
        aten.alias.default,
        aten.cat.default,
        aten.clone.default,
        aten.detach.default,
        aten.expand.default,
        aten.gather.default,
        aten.index.Tensor,
        aten.index_copy.default,
        aten.index_put.default,
        aten.index_select.default,
        aten.permute.default,
        aten.reshape.default,
        aten.scatter.src,
        aten.select.int,
        aten.select_scatter.default,
        aten.slice.Tensor,
        aten.slice_scatter.default,
        aten.squeeze.dim,
        aten.t.default,
        aten.transpose.int,
        aten.unsqueeze.default,
        aten.view.default,
        aten.where.self,
    }
)
"""Operators that only move elements: their result has the dtype of those of their arguments that they move."""

_LARGEST_CARRIER = 2
"""Bytes: wider integers are indices too, and would be taken for what they move."""


def mark_carried(module: fx.GraphModule) -> None:
    """Mark every integer node that holds bits of floats, as views of another dtype say it, before and after moves."""
    found: dict[fx.Node, torch.dtype] = {
        node: node.meta[CARRIED] for node in module.graph.nodes if CARRIED in node.meta
    }
    calls = module.graph.find_nodes(op="call_function", target=aten.view.dtype)
    for node in calls:
        source = node.args[0]
        assert isinstance(source, fx.Node)
        for whole, bits in ((source, node), (node, source)):
            is_carrier = not _dtype(bits).is_floating_point and _dtype(bits).itemsize <= _LARGEST_CARRIER
            if _dtype(whole).is_floating_point and is_carrier:
                found.setdefault(bits, _dtype(whole))
    waiting = list(found)
    while waiting:
        node = waiting.pop()
        for other in _moved_with(node):
            if other not in found:
                found[other] = found[node]
                waiting.append(other)
    for node, dtype in found.items():
        node.meta[CARRIED] = dtype


def decode_carried(tensor: Tensor, carried: torch.dtype | None) -> Tensor:
    """The floats whose bits a tensor holds; the tensor itself if it holds none."""
    return tensor if carried is None or tensor.dtype.is_floating_point else tensor.contiguous().view(carried)


def _moved_with(node: fx.Node) -> list[fx.Node]:
    """Nodes of the same dtype that hold elements of this one, or whose elements it holds."""
    before = node.all_input_nodes if node.target in _MOVES else []
    after = [user for user in node.users if user.target in _MOVES]
    return [one for one in (*before, *after) if isinstance(one.meta.get("val"), Tensor) and _dtype(one) == _dtype(node)]


def _dtype(node: fx.Node) -> torch.dtype:
    return node.meta["val"].dtype
