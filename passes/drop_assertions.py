"""Drop nodes that compute nothing: run-time assertions, detach, alias and clones that change no layout."""

from __future__ import annotations

import torch
from torch import fx

from .context import PassContext

aten = torch.ops.aten

_ASSERTIONS = {
    aten._assert_async.default,
    aten._assert_async.msg,
    aten._assert_scalar.default,
    aten._assert_tensor_metadata.default,
    aten.sym_constrain_range.default,
    aten.sym_constrain_range_for_size.default,
}
_IDENTITIES = {aten.detach.default, aten.alias.default, aten.lift_fresh_copy.default, aten.clone.default}


def drop_assertions(module: fx.GraphModule, context: PassContext) -> int:
    """Erase assertions and replace identities by their argument; returns how many nodes went."""
    changed = 0
    for node in list(module.graph.nodes):
        if node.target in _ASSERTIONS:
            module.graph.erase_node(node)
            changed += 1
        elif node.target in _IDENTITIES and _same_layout(node, node.args[0]) and not _keeps_old_value(node):
            node.replace_all_uses_with(node.args[0])
            module.graph.erase_node(node)
            changed += 1
    return changed


def _keeps_old_value(node: fx.Node) -> bool:
    """Whether a result is a copy of an input from before its update: a returned input would be the updated one."""
    (source,) = node.all_input_nodes
    is_updated = any(user.target is aten.copy_.default and user.args[0] is source for user in source.users)
    return is_updated and node.target is aten.clone.default and _is_returned(node)


def _is_returned(node: fx.Node) -> bool:
    return any(user.op == "output" or (user.target in _IDENTITIES and _is_returned(user)) for user in node.users)


def _same_layout(node: fx.Node, source: fx.Node) -> bool:
    return node.meta["val"].stride() == source.meta["val"].stride()
