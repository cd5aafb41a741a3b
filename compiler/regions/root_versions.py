"""The states that an updated input goes through in a functional graph.

In the graph every update makes a new value. In memory there is one tensor, so at any moment it holds one of those
values: its version. Where a step is cut, only the newest version can cross.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import fx

from ...passes.context import arguments, output_node, placeholders

aten = torch.ops.aten

STORES = frozenset(
    {
        aten.index_put.default,
        aten.index_copy.default,
        aten.index_fill.int_Scalar,
        aten.scatter.src,
        aten.scatter.value,
        aten.select_scatter.default,
        aten.slice_scatter.default,
    }
)
"""Operators whose result is their first argument with some elements replaced."""

LAYOUTS = frozenset(
    {
        aten.view.default,
        aten._unsafe_view.default,
        aten.reshape.default,
        aten.unsqueeze.default,
        aten.squeeze.default,
        aten.squeeze.dim,
        aten.squeeze.dims,
    }
)
"""Operators whose result is their first argument, all elements in the same order, in another shape."""


@dataclass(frozen=True)
class Version:
    """Version ``number`` of the graph input at index ``root``; ``value`` made it. Number 0 is the input itself."""

    root: int
    number: int
    value: fx.Node


class RootVersions:
    """Every version of every updated input.

    Attributes:
        held: the version that a node has the elements of: inputs, stores on the way to the last version, layouts.
        of_root: versions by input index, in order.
    """

    def __init__(self, module: fx.GraphModule, aliases: Mapping[int, int]):
        inputs, results = placeholders(module), output_node(module).args[0]
        self.held: dict[fx.Node, Version] = {}
        self.of_root: dict[int, list[Version]] = {}
        for position, root in aliases.items():
            self._follow(root, inputs[root], results[position])  # pyright: ignore
        for node in module.graph.nodes:
            if node.target in LAYOUTS and node.args[0] in self.held:
                self.held.setdefault(node, self.held[node.args[0]])

    def impossible_cuts(self, stages: Mapping[fx.Node, int]) -> set[int]:
        """Numbers of the stages that cannot be cut from the next one.

        A stage that makes a new version overwrites the one before, so every use of that one belongs to the same
        region.
        """
        impossible: set[int] = set()
        for versions in self.of_root.values():
            for old, new in pairwise(versions):
                overwritten = stages[new.value]
                last_use = max((stages[user] for user in self._uses(old)), default=overwritten)
                impossible.update(range(overwritten, last_use))
        return impossible

    def _follow(self, root: int, source: fx.Node, last: fx.Node) -> None:
        """Record the stores between an input and its last version; any other way there is one single update."""
        first = Version(root, 0, source)
        self.held[source] = first
        self.of_root[root] = [first]
        stores = _stores_between(source, last)
        if stores is None or any(node in self.held for node in stores):
            self.of_root[root].append(Version(root, 1, last))
            return
        for node in stores:
            self.held[node] = Version(root, len(self.of_root[root]), node)
            self.of_root[root].append(self.held[node])

    def _uses(self, version: Version) -> list[fx.Node]:
        """Nodes that read a version, and layouts of it that the graph returns."""
        holders = [node for node, held in self.held.items() if held == version]
        users = [user for node in holders for user in node.users]
        readers = [user for user in users if user not in holders and user.op != "output"]
        return readers + [node for node in holders if any(user.op == "output" for user in node.users)]


def effective_stages(module: fx.GraphModule, marks: Mapping[fx.Node, int]) -> dict[fx.Node, int]:
    """The stage of every node: its own mark, or a later one if an argument is made later; inputs are in stage 0."""
    stages: dict[fx.Node, int] = {}
    for node in module.graph.nodes:
        latest = max((stages[source] for source in node.all_input_nodes), default=0)
        # A result is picked where its tuple is made: only tensors cross.
        stages[node] = latest if node.target is operator.getitem else max(latest, marks.get(node, 0))
    return stages


def _stores_between(source: fx.Node, last: fx.Node) -> list[fx.Node] | None:
    stores: list[fx.Node] = []
    node = last
    while node is not source:
        if node.target in STORES:
            stores.append(node)
        elif node.target not in LAYOUTS:
            return None
        node = arguments(node)[0]
    return stores[::-1]
