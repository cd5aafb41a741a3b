"""Fewer inputs: those of one type become one; and constants become inputs, whose values say nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby

from torch import Tensor, fx

from ...passes.context import placeholders
from ...passes.result_type import as_type
from ...runtime.dtype_names import name_of
from .proposal import Proposal
from .retype import retype


def merge_inputs(module: fx.GraphModule, aliases: Mapping[int, int]) -> Iterator[Proposal]:
    """Inputs of one type as one, all of a type first and then in pairs; not those whose memory is reused."""
    inputs = placeholders(module)
    free = [node for index, node in enumerate(inputs) if index not in aliases.values()]
    for kind, members in groupby(sorted(free, key=_kind), key=_kind):
        alike = list(members)
        groups = [alike[1:], *([one] for one in alike[1:] if len(alike) > 2)]
        for gone in groups if len(alike) > 1 else []:
            title = f"{len(gone) + 1} inputs of type {kind} -> 1"
            yield _without(module, aliases, title, dict.fromkeys(gone, alike[0]))


def free_constants(module: fx.GraphModule, aliases: Mapping[int, int]) -> Iterator[Proposal]:
    """Each constant tensor as an input."""
    for node in module.graph.nodes:
        held = getattr(module, str(node.target)) if node.op == "get_attr" else None
        if isinstance(held, Tensor):
            changed = retype(module, {node: as_type(held)})
            old, new = [one.name for one in placeholders(module)], [one.name for one in placeholders(changed)]
            moved = {output: new.index(old[source]) for output, source in aliases.items()}
            yield Proposal(f"constant {node.name} -> input", changed, moved)


def _without(
    module: fx.GraphModule, aliases: Mapping[int, int], title: str, replaced: Mapping[fx.Node, fx.Node]
) -> Proposal:
    left = [node for node in placeholders(module) if node not in replaced]
    inputs = placeholders(module)
    moved = {output: left.index(inputs[source]) for output, source in aliases.items()}
    return Proposal(title, retype(module, {}, replaced=replaced), moved)


def _kind(node: fx.Node) -> str:
    value = node.meta["val"]
    return f"{name_of(value.dtype)}{list(value.shape)}"
