"""Every operator call that a graph is lowered to, those inside decompositions and loops included."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import fx
from torch._ops import OpOverload

from ..compiler.lowering.control_flow import WHILE_LOOP, loop_graphs
from ..compiler.lowering.decompose import Decompositions
from ..compiler.lowering.inexact import INEXACT, Inexact
from ..compiler.lowering.primitives import SAME_AS_ATEN
from ..compiler.lowering.registry import LOWERINGS
from ..compiler.lowering.support import DROPPED

aten = torch.ops.aten

_UNDEFINED = {
    aten.empty.memory_format,
    aten.empty_like.default,
    aten.empty_strided.default,
    aten.new_empty.default,
}
"""Their results have no particular values."""


def is_compared(node: fx.Node) -> bool:
    """Whether the node computes something that can be compared."""
    computes = node.op == "call_function" and isinstance(node.target, OpOverload)
    return computes and node.target not in DROPPED and node.target not in _UNDEFINED


def is_decomposed(node: fx.Node) -> bool:
    """Whether the node has no rule of its own in the lowering."""
    return node.target not in LOWERINGS


def table_entry(node: fx.Node) -> Inexact | None:
    """What the table of inexact operators says about the node's operator."""
    return INEXACT.get(SAME_AS_ATEN.get(node.target, node.target))  # pyright: ignore


def operator_calls(module: fx.GraphModule, decompositions: Decompositions) -> Iterator[fx.Node]:
    """The calls of ``module`` in order, each before those of its decomposition; a loop counts as one round."""
    for node in module.graph.nodes:
        if node.target is WHILE_LOOP:
            for region in loop_graphs(node):
                yield from operator_calls(region, decompositions)
        elif is_compared(node):
            yield node
            if is_decomposed(node):
                yield from operator_calls(decompositions.graph(node), decompositions)
