"""An FX graph as something to cut down: any of its operations, alone or together, are a graph of their own."""

from __future__ import annotations

import operator
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property

import torch
from torch import Tensor, fx

from ...compiler.lowering.decompose import Decompositions
from ...compiler.lowering.lower import lower_graph
from ...compiler.lowering.options import LoweringOptions
from ...compiler.lowering.support import DROPPED
from ...compiler.regions.root_versions import RootVersions
from ...errors import GraphError
from ...passes.context import STAGE, arguments, placeholders, results
from ...passes.lazy_module import lazy_module
from ...passes.locations import source_line
from .carried_bits import CARRIED
from .graph_text import node_text, type_text
from .subject import Candidate, Item
from .values import VALUE, values_digest


class GraphSubject:
    """The operations and results of a functional aten graph after the passes; see ``Subject``. For one thread.

    Parts of a tuple go with the operation that makes it; constant tensors and the graphs of loops are no items and go
    wherever they are used. What a program loses with an operation comes back as an input of the same dtype and shape,
    in row-major memory, after those inputs of the whole program that are still read. It takes over the value that the
    whole program has there, if values were recorded (``values.record_values``).

    Args:
        module: what the passes or a cut left; it is not changed.
        aliases: output index -> index of the input whose memory it reuses.
        options: how candidates are lowered.
        group_of: names of regions by operation; see ``stage_groups``.
    """

    def __init__(
        self,
        module: fx.GraphModule,
        aliases: Mapping[int, int],
        options: LoweringOptions,
        group_of: Mapping[fx.Node, str] | None = None,
    ):
        self.module = module
        self.aliases = dict(aliases)
        self.options = options
        self._group_of = group_of or {}
        self._inputs = placeholders(module)
        self._results: Sequence[fx.Node] = results(module)
        self._calls = [node for node in module.graph.nodes if _is_operation(node)]
        self._versions = RootVersions(module, self.aliases).held
        self._decompositions = Decompositions(options)

    @property
    def items(self) -> Sequence[Item]:
        """See ``Subject.items``."""
        return self._items

    @cached_property
    def _items(self) -> Sequence[Item]:
        indices = {node: index for index, node in enumerate(self._calls)}

        def reads(sources: Iterable[fx.Node]) -> tuple[int, ...]:
            makers = {_maker(source) for source in sources}
            return tuple(sorted(indices[maker] for maker in makers if maker in indices))

        calls = [
            Item(
                f"%{node.name}", node_text(node), _line(node), self._group_of.get(node, ""), reads(node.all_input_nodes)
            )
            for node in self._calls
        ]
        last = self._group_of.get(self._calls[-1], "") if self._calls else ""
        returned = [
            Item(f"result {position}", self._result_text(position), _line(node), last, reads([node]), is_result=True)
            for position, node in enumerate(self._results)
        ]
        return (*calls, *returned)

    def candidate(self, keep: Collection[int]) -> Candidate:
        """See ``Subject.candidate``. A result whose operation is not kept is not returned.

        Outputs are the kept results, then what else nothing reads, then the kept results that reuse the memory of an
        input. They do so while the program has that input, or an older version of it in its place.
        """
        kept, count = sorted(set(keep)), len(self._calls)
        if kept and not 0 <= kept[0] <= kept[-1] < count + len(self._results):
            raise GraphError(
                f"a program of {count + len(self._results)} items has none of number {kept[0]} to {kept[-1]}"
            )
        calls = [self._calls[index] for index in kept if index < count]
        if not calls:
            raise GraphError("a program without operations: keep at least one")
        if len(kept) == count + len(self._results):
            module, aliases = self.module, self.aliases
        else:
            module, aliases = self._cut(calls, [index - count for index in kept if index >= count])
        lowered = lower_graph(module, self.options, aliases, self._decompositions)
        return Candidate(len(calls), lowered.bytecode, module, aliases, lowered.runtime_zero, values_digest(module))

    def _result_text(self, position: int) -> str:
        node = self._results[position]
        source = self.aliases.get(position)
        reuse = "" if source is None else f" in the memory of %{self._inputs[source].name}"
        return f"return %{node.name}{reuse} : {type_text(node.meta.get('val'))}"

    def _cut(self, calls: Sequence[fx.Node], positions: Sequence[int]) -> tuple[fx.GraphModule, dict[int, int]]:
        """The graph of these operations and results, and its aliases."""
        kept = frozenset(calls)
        chosen = [
            at for at in positions if self._results[at].op != "call_function" or _maker(self._results[at]) in kept
        ]
        cut = _CutGraph(self.module, calls, [self._results[at] for at in chosen])
        memories = {at: self._memory(at, cut.inputs) for at in chosen}
        updates = [at for at in chosen if memories[at] is not None]
        plain = [self._results[at] for at in chosen if at not in updates]
        outputs = [*plain, *cut.unread(), *(self._results[at] for at in updates)]
        first = len(outputs) - len(updates)
        aliases = {first + index: memory for index, at in enumerate(updates) if (memory := memories[at]) is not None}
        return cut.finish(outputs), aliases

    def _memory(self, position: int, inputs: Sequence[fx.Node]) -> int | None:
        """The index in ``inputs`` of the memory that a result reuses; None if there is none."""
        root = self.aliases.get(position)
        if root is None:
            return None
        held = [
            index
            for index, node in enumerate(inputs)
            if node in self._versions and self._versions[node].root == root and _same_type(node, self._inputs[root])
        ]
        return next(iter(held), None)


def stage_groups(module: fx.GraphModule, stage_names: Sequence[str]) -> dict[fx.Node, str]:
    """The name of the stage of every operation; one that stands behind those of a later stage belongs to that one.

    Args:
        module: after the passes, which mark nodes with their stages.
        stage_names: by the numbers that nodes are marked with.
    """
    groups: dict[fx.Node, str] = {}
    latest = 0
    for node in module.graph.nodes:
        if _is_operation(node):
            latest = max(latest, node.meta.get(STAGE, latest))
            groups[node] = stage_names[latest] if latest < len(stage_names) else ""
    return groups


class _CutGraph:
    """A graph of some operations and whatever ``returned`` needs besides.

    Attributes:
        inputs: nodes of the whole graph that its placeholders stand for.
    """

    def __init__(self, module: fx.GraphModule, calls: Sequence[fx.Node], returned: Collection[fx.Node]):
        self._module = module
        self._calls = calls
        self._returned = returned
        self._kept = frozenset(calls)
        self._graph = fx.Graph()
        self._copies: dict[fx.Node, fx.Node] = {}
        read = dict.fromkeys([*(source for node in calls for source in node.all_input_nodes), *returned])
        missing = [node for node in read if node.op == "call_function" and _maker(node) not in self._kept]
        self.inputs = [*(node for node in placeholders(module) if node in read), *missing]
        for node in self.inputs:
            self._copies[node] = self._input(node)
        for node in module.graph.nodes:
            if node.op == "call_function" and _maker(node) in self._kept:
                self._copies[node] = self._graph.node_copy(node, self._value)

    def unread(self) -> list[fx.Node]:
        """Results of the operations, in order, that none of them reads and that are not returned."""
        values = [value for node in self._calls for value in self._values(node)]
        return [one for one in values if one not in self._returned and self._kept.isdisjoint(one.users)]

    def finish(self, outputs: Iterable[fx.Node]) -> fx.GraphModule:
        """The graph, which returns what stands for these nodes of the whole graph."""
        outputs = list(outputs)
        if not outputs:
            raise GraphError(f"a program without results: nothing reads what {node_text(self._calls[0])} makes")
        self._graph.output(tuple(map(self._value, outputs)))
        return lazy_module(self._module, self._graph)

    def _value(self, node: fx.Node) -> fx.Node:
        """What stands for a node of the whole graph; constants are copied when they are asked for."""
        if node not in self._copies:
            self._copies[node] = self._graph.node_copy(node)
        return self._copies[node]

    def _input(self, node: fx.Node) -> fx.Node:
        value = node.meta.get("val")
        if not isinstance(value, Tensor):
            raise GraphError(
                f"%{node.name} is {type_text(value)}, which cannot be an input: keep it with what reads it"
            )
        copy = self._graph.placeholder(node.name)
        if node.op == "placeholder":
            copy.meta.update(node.meta)
        else:
            copy.meta["val"] = torch.empty(value.shape, dtype=value.dtype, device="meta")
            copy.meta.update({key: node.meta[key] for key in (VALUE, CARRIED) if key in node.meta})
        return copy

    def _values(self, node: fx.Node) -> list[fx.Node]:
        """The tensors that an operation makes; of a tuple, the parts that anything reads."""
        if isinstance(node.meta.get("val"), Tensor):
            return [node]
        return [value for part in node.users if part.target is operator.getitem for value in self._values(part)]


def _is_operation(node: fx.Node) -> bool:
    return node.op == "call_function" and node.target not in DROPPED and _maker(node) is node


def _maker(node: fx.Node) -> fx.Node:
    """The operation that makes a value: for a part of a tuple, the one that makes the tuple."""
    while node.target is operator.getitem and not isinstance(arguments(node)[0].meta.get("val"), Tensor):
        node = arguments(node)[0]
    return node


def _line(node: fx.Node) -> str:
    line = source_line(node)
    return str(line) if line else ""


def _same_type(first: fx.Node, second: fx.Node) -> bool:
    one, other = first.meta["val"], second.meta["val"]
    return one.dtype == other.dtype and one.shape == other.shape
