"""Cut a region into pieces that end where compiled and eager results may begin to differ."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping

from torch import fx

from ..compiler.regions.cut import CutGraph
from ..compiler.regions.cut_graph import cut_graph
from ..passes.context import STAGE
from ..passes.locations import source_line

REST = "the rest"
"""Name of what comes after the last end."""


def cut_after(module: fx.GraphModule, aliases: Mapping[int, int], is_end: Callable[[fx.Node], bool]) -> CutGraph:
    """Cut after every node that ``is_end`` accepts and the items of its result, where a cut is possible.

    A piece is named after the operator that it ends in and the line that calls it. The marks of ``module``'s nodes
    are replaced.
    """
    names: list[str] = []
    ended = True
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        is_item = node.target is operator.getitem
        if ended and not is_item:
            names.append(REST)
        node.meta[STAGE] = len(names) - 1
        if is_end(node):
            names[-1] = f"{node.target} at {source_line(node)}"
        ended = is_end(node) or (ended and is_item)
    return cut_graph(module, aliases, names)
