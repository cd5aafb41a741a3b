"""Cut the graph of a step into regions, each a graph that is compiled by itself.

A region is a run of whole stages. It holds the nodes of its stages, in their order, and copies of what costs nothing
to have twice: constants, and layouts of updated inputs. Every other value that it uses from elsewhere, the step's own
inputs included, is an input; every value that a later region uses or the step returns is an output. Indices and
rotations that many layers share are therefore computed once, in the stage that computes them, and handed on.

An updated input has one memory. A region that stores into it takes it as an input and returns it as an output that
aliases that input; the next region finds the new version there. A cut that an old version would have to cross is not
made.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import fx

from ...passes.context import STAGE, arguments, output_node, placeholders
from ...passes.lazy_module import lazy_module
from ...passes.result_type import as_type
from .cut import CutGraph, Place, Region, StepInput, StepValue
from .region_order import check_order, region_graph
from .root_versions import LAYOUTS, RootVersions, effective_stages


def cut_graph(
    module: fx.GraphModule, aliases: Mapping[int, int], stage_names: Sequence[str], whole: bool = False
) -> CutGraph:
    """Cut a graph between its marked stages, or make one region of it.

    Args:
        module: a functional graph; ``aliases`` maps its trailing outputs to the inputs that they update.
        stage_names: names of the stages that ``node.meta[STAGE]`` numbers.
        whole: cut nowhere.

    Raises:
        GraphError: an output is no computed tensor, or the regions need each other's results.
    """
    marks = {} if whole else {node: node.meta[STAGE] for node in module.graph.nodes if STAGE in node.meta}
    facts = _Facts(module, aliases, marks)
    regions = tuple(
        _make_region(facts, group, nodes, stage_names, "whole" if whole else "")
        for group, nodes in sorted(facts.groups().items())
    )
    check_order(region_graph(regions))
    return CutGraph(regions, tuple(node.name for node in facts.returned))


class _Facts:
    """What has to be known about a graph to cut it."""

    def __init__(self, module: fx.GraphModule, aliases: Mapping[int, int], marks: Mapping[fx.Node, int]):
        self.module = module
        self.inputs = placeholders(module)
        self.positions = {node: position for position, node in enumerate(self.inputs)}
        self.versions = RootVersions(module, aliases)
        self.stages = effective_stages(module, marks)
        results: Any = output_node(module).args[0]
        self.returned: list[fx.Node] = list(results[: len(results) - len(aliases)])
        impossible = self.versions.impossible_cuts(self.stages)
        self._groups = {stage: stage - sum(cut < stage for cut in impossible) for stage in set(self.stages.values())}
        self._live = _live_nodes(module)
        self._constants = _constants(module)
        updates = [version.value for versions in self.versions.of_root.values() for version in versions[1:]]
        self._kept = {*self.returned, *updates}

    def group(self, node: fx.Node) -> int:
        """Number of the region that computes ``node``."""
        return self._groups[self.stages[node]]

    def is_free(self, node: fx.Node) -> bool:
        """Whether each region that uses ``node`` makes it for itself."""
        return node in self._constants or (node in self.versions.held and node.target in LAYOUTS)

    def groups(self) -> dict[int, list[fx.Node]]:
        """The nodes of each region, in order."""
        groups: dict[int, list[fx.Node]] = {}
        for node in self.module.graph.nodes:
            if node.op == "call_function" and node in self._live and (node in self._kept or not self.is_free(node)):
                groups.setdefault(self.group(node), []).append(node)
        return groups

    def leaves(self, node: fx.Node) -> bool:
        """Whether ``node`` is handed to a later region, or returned, as a value of its own."""
        if node in self.returned:
            return True
        if self.is_free(node) or node in self.versions.held:
            return False
        later = [user for user in node.users if user.op == "call_function" and user in self._live]
        return any(self.group(user) > self.group(node) for user in later)

    def updated(self, group: int) -> dict[int, fx.Node]:
        """The last version of every updated input that a region makes, by the input's index."""
        made = {}
        for root, versions in self.versions.of_root.items():
            values = [version.value for version in versions[1:] if self.group(version.value) == group]
            if values:
                made[root] = values[-1]
        return made


class _RegionGraph:
    """A region's graph in the making."""

    def __init__(self, facts: _Facts):
        self.graph = fx.Graph()
        self.places: dict[Place, fx.Node] = {}
        self._facts = facts
        self._copies: dict[fx.Node, fx.Node] = {}
        self._shaped: dict[tuple[fx.Node, torch.Size], fx.Node] = {}

    def add(self, node: fx.Node) -> None:
        """Compute ``node`` here."""
        if node in self._facts.versions.held and node.target in LAYOUTS:
            self._copies[node] = self.shaped_like(node, self.value(arguments(node)[0]))
        else:
            self._copies[node] = self.graph.node_copy(node, self.value)

    def value(self, node: fx.Node) -> fx.Node:
        """What stands for a node of the whole graph in this region."""
        if node not in self._copies:
            held = self._facts.versions.held.get(node)
            if node.op == "placeholder":
                self._copies[node] = self.input(StepInput(self._facts.positions[node]), node)
            elif self._facts.is_free(node):
                self.add(node)
            elif held is not None:
                root = self.input(StepInput(held.root), self._facts.inputs[held.root])
                self._copies[node] = self.shaped_like(node, root)
            else:
                self._copies[node] = self.input(StepValue(node.name), node)
        return self._copies[node]

    def input(self, place: Place, like: fx.Node) -> fx.Node:
        """The placeholder for a place; it is made after the last one when it is first asked for."""
        if place not in self.places:
            last = next(reversed(self.places.values()), None)
            with self.graph.inserting_after(last):  # pyright: ignore[reportArgumentType]
                self.places[place] = self.graph.placeholder(like.name)
            self.places[place].meta.update(like.meta)
        return self.places[place]

    def shaped_like(self, like: fx.Node, value: fx.Node) -> fx.Node:
        """All elements of ``value`` in the shape of ``like``, in one step from the node that made them."""
        shape = like.meta["val"].shape
        while value.target in LAYOUTS:
            value = arguments(value)[0]
        if value.meta["val"].shape == shape:
            return value
        if (value, shape) not in self._shaped:
            reshaped = self.graph.call_function(torch.ops.aten.reshape.default, (value, list(shape)))
            reshaped.meta.update(value.meta)
            reshaped.meta["val"] = as_type(value.meta["val"]).reshape(shape)
            self._shaped[value, shape] = reshaped
        return self._shaped[value, shape]


def _make_region(facts: _Facts, group: int, nodes: Sequence[fx.Node], stage_names: Sequence[str], name: str) -> Region:
    region = _RegionGraph(facts)
    for node in nodes:
        region.add(node)
    leaving = [node for node in nodes if facts.leaves(node)]
    places: list[Place] = [StepValue(node.name) for node in leaving]
    results = [region.value(node) for node in leaving]
    for root, node in facts.updated(group).items():
        source = facts.inputs[root]
        region.input(StepInput(root), source)
        places.append(StepInput(root))
        results.append(region.shaped_like(source, region.value(node)))
    region.graph.output(tuple(results))
    stages = sorted({facts.stages[node] for node in nodes})
    return Region(
        name=name or "+".join(stage_names[stage] for stage in stages),
        module=lazy_module(facts.module, region.graph),
        inputs=tuple(region.places),
        outputs=tuple(places),
        stage_names=tuple(stage_names),
    )


def _live_nodes(module: fx.GraphModule) -> set[fx.Node]:
    """Nodes that the output depends on."""
    live = {output_node(module)}
    for node in reversed(module.graph.nodes):
        if node in live:
            live.update(node.all_input_nodes)
    return live


def _constants(module: fx.GraphModule) -> set[fx.Node]:
    """Nodes that depend on no input of the step."""
    constants: set[fx.Node] = set()
    for node in module.graph.nodes:
        if node.op in ("get_attr", "call_function") and constants.issuperset(node.all_input_nodes):
            constants.add(node)
    return constants
