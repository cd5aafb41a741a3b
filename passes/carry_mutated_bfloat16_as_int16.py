"""Give the host updated bfloat16 inputs as int16 with the same bits.

XLA's CPU compiler widens a whole bfloat16 buffer to float32 and back around every scatter, although
the update itself is in place; on integers a store costs what the stored rows cost. So the input, the
stores into it and the layout operators around them are typed int16, and only rows that are stored or
gathered are viewed as the other type. An input with any other use stays as it is.
"""

from __future__ import annotations

import torch
from torch import fx

from .context import PassContext, arguments, placeholders, results
from .result_type import as_type

aten = torch.ops.aten

_STORES = {aten.index_put.default: 2, aten.index_copy.default: 3}
_LAYOUTS = {aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.unsqueeze.default}
_LAYOUTS |= {aten.squeeze.dim, aten.squeeze.dims, aten.squeeze.default}
_LOADS = {aten.index.Tensor, aten.index_select.default, aten.gather.default, aten.select.int, aten.clone.default}
_LOADS |= {aten.slice.Tensor}


def carry_mutated_bfloat16_as_int16(module: fx.GraphModule, context: PassContext) -> int:
    """Retype every updated bfloat16 input that allows it; returns how many did."""
    if context.target != "host":
        return 0
    inputs = placeholders(module)
    returned = results(module)
    changed = 0
    for position, source in context.aliases.items():
        root = inputs[source]
        buffers = _buffers_of(root, returned[position]) if root.meta["val"].dtype is torch.bfloat16 else None
        if buffers is not None:
            _retype(buffers)
            context.carriers[source] = torch.int16
            changed += 1
    return changed


def _buffers_of(root: fx.Node, final: fx.Node) -> list[fx.Node] | None:
    """All nodes that are versions or layouts of ``root``, or None when one is used in another way."""
    buffers = [root]
    for buffer in buffers:
        for user in buffer.users:
            if user in buffers or (user.op == "output" and buffer is final):
                continue
            if not _reads_only_as_buffer(user, buffer):
                return None
            if user.target in _LAYOUTS or user.target in _STORES:
                buffers.append(user)
    return buffers if final in buffers else None


def _reads_only_as_buffer(user: fx.Node, buffer: fx.Node) -> bool:
    """Whether ``user`` is an operator that moves elements and has ``buffer`` as its first argument only."""
    if user.target not in _LAYOUTS and user.target not in _STORES and user.target not in _LOADS:
        return False
    if user.target is aten.index_put.default and len(user.args) > 3 and user.args[3]:
        return False
    first, *rest = arguments(user)
    others: list[fx.Node] = []
    fx.map_arg(rest, others.append)
    return first is buffer and buffer not in others


def _retype(buffers: list[fx.Node]) -> None:
    graph = buffers[0].graph
    for buffer in buffers:
        for user in list(buffer.users):
            if user.target in _LOADS:
                _view_result_as_bfloat16(graph, user)
        if buffer.target in _STORES:
            _view_stored_rows_as_int16(graph, buffer)
        buffer.meta["val"] = _as_int16(buffer)


def _view_result_as_bfloat16(graph: fx.Graph, load: fx.Node) -> None:
    with graph.inserting_after(load):
        view = graph.call_function(aten.view.dtype, (load, torch.bfloat16))
    load.replace_all_uses_with(view, delete_user_cb=lambda user: user is not view)
    view.meta.update(load.meta)
    load.meta["val"] = _as_int16(load)


def _view_stored_rows_as_int16(graph: fx.Graph, store: fx.Node) -> None:
    position = next(place for target, place in _STORES.items() if target is store.target)
    rows = arguments(store)[position]
    with graph.inserting_before(store):
        view = graph.call_function(aten.view.dtype, (rows, torch.int16))
    view.meta.update(rows.meta)
    view.meta["val"] = _as_int16(rows)
    store.update_arg(position, view)


def _as_int16(node: fx.Node) -> torch.Tensor:
    return as_type(node.meta["val"]).view(torch.int16)
