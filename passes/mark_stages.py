"""Take the stage boundaries out of a graph and mark each node with the stage that it stood in."""

from __future__ import annotations

from torch import fx

from .context import STAGE, PassContext, clone_before
from .stage_boundary import STAGE_BOUNDARY

LAST_STAGE = "end"
"""Name of what comes after the last boundary."""


def mark_stages(module: fx.GraphModule, context: PassContext) -> int:
    """Number the stages in program order and erase the boundaries; returns how many there were.

    A boundary's result becomes its argument, or a clone where the two have different strides. Numbers are kept in
    ``node.meta[STAGE]``, which nodes that are made later inherit, and names in ``context.stage_names``.
    """
    for node in list(module.graph.nodes):
        if node.op == "call_function":
            node.meta[STAGE] = len(context.stage_names)
            if node.target is STAGE_BOUNDARY:
                _erase(node)
                context.stage_names.append(str(node.args[0]))
    changed = len(context.stage_names)
    context.stage_names.append(LAST_STAGE)
    return changed


def _erase(boundary: fx.Node) -> None:
    sources = boundary.args[1]
    assert isinstance(sources, (list, tuple))
    for item in list(boundary.users):
        source = sources[item.args[1]]  # pyright: ignore[reportArgumentType, reportCallIssue]
        assert isinstance(source, fx.Node)
        if source.meta["val"].stride() != item.meta["val"].stride():
            source = clone_before(boundary, source)
            source.meta.update(item.meta, **{STAGE: boundary.meta[STAGE]})
        item.replace_all_uses_with(source)
        boundary.graph.erase_node(item)
    boundary.graph.erase_node(boundary)
