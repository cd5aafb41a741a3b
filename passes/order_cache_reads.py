"""Read what an updated input held before in front of its update.

On a device an update takes over the memory of the input, so an old value that is read afterwards is gone: the Neuron
compiler verifies that no aliased buffer is read after it was written. A graph has no such order, only values. Here
reads of an old version move in front of the store that replaces it, where they do not depend on that store; XLA's CPU
compiler orders or copies by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import fx

from .context import PassContext, placeholders, results
from .strided_view import VIEWS

aten = torch.ops.aten

STORES = frozenset({aten.index_put.default, aten.index_copy.default})
_LAYOUTS = frozenset({*VIEWS, aten._unsafe_view.default, aten.reshape.default, aten.view.dtype})


def order_cache_reads(module: fx.GraphModule, context: PassContext) -> int:
    """Move late reads of old versions of updated inputs in front of the next store; returns how many moved."""
    if context.target == "host":
        return 0
    moved = 0
    for read, store in list(late_reads(module, context)):
        if not _depends_on(read, store):
            _move_before(store, read)
            moved += 1
    return moved


def late_reads(module: fx.GraphModule, context: PassContext) -> Iterator[tuple[fx.Node, fx.Node]]:
    """Each node that reads an old version of an updated input behind the store that replaces it, and that store."""
    order = {node: number for number, node in enumerate(module.graph.nodes)}
    inputs, returned = placeholders(module), results(module)
    for position, source in context.aliases.items():
        chain = _versions(inputs[source], returned[position])
        stores = [node for node in chain if node.target in STORES]
        found: set[fx.Node] = set()
        for store in stores:
            late = [read for read in _reads(chain[: chain.index(store)], chain) if order[read] > order[store]]
            yield from ((read, store) for read in dict.fromkeys(late) if read not in found)
            found.update(late)


def _reads(old: Sequence[fx.Node], chain: Sequence[fx.Node]) -> Iterator[fx.Node]:
    """The nodes that read elements of these versions, through views or directly."""
    pending = list(old)
    for version in pending:
        for user in version.users:
            if user.target in _LAYOUTS and user not in chain:
                pending.append(user)
            elif user not in chain:
                yield user


def _versions(root: fx.Node, last: fx.Node) -> list[fx.Node]:
    """The nodes from an input to its last value, each a store into the one before or another shape of it."""
    chain = [last]
    while chain[-1] is not root and (chain[-1].target in STORES or chain[-1].target in _LAYOUTS):
        chain.append(chain[-1].all_input_nodes[0])
    return chain[::-1] if chain[-1] is root else []


def _depends_on(node: fx.Node, origin: fx.Node) -> bool:
    pending, seen = [node], {node}
    while pending:
        for source in pending.pop().all_input_nodes:
            if source is origin:
                return True
            if source not in seen:
                seen.add(source)
                pending.append(source)
    return False


def _move_before(anchor: fx.Node, node: fx.Node) -> None:
    """Move a node, and what it needs, in front of ``anchor``."""
    order = {one: number for number, one in enumerate(anchor.graph.nodes)}
    needed, pending = {node}, [node]
    while pending:
        for source in pending.pop().all_input_nodes:
            if order[source] > order[anchor] and source not in needed:
                needed.add(source)
                pending.append(source)
    for one in sorted(needed, key=order.__getitem__):
        anchor.prepend(one)
