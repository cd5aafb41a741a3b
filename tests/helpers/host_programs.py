"""Builds one program out of many operator calls and runs it on the host."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.runtime.devices.pjrt import PjrtDevice, PjrtExecutable, aligned_empty
from torch import fx
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_map


@dataclass(frozen=True)
class Case:
    """One call of one overload on real tensors."""

    overload: Any
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)

    def eager(self) -> list[torch.Tensor]:
        """What PyTorch computes."""
        return [one for one in tree_flatten(self.overload(*self.arguments, **self.keywords))[0] if one is not None]

    def inputs(self) -> list[torch.Tensor]:
        """Every tensor argument once."""
        leaves = tree_flatten((self.arguments, dict(self.keywords)))[0]
        return list({id(leaf): leaf for leaf in leaves if isinstance(leaf, torch.Tensor)}.values())

    def __str__(self) -> str:
        def describe(argument: Any) -> Any:
            return f"{argument.dtype}{list(argument.shape)}" if isinstance(argument, torch.Tensor) else argument

        return f"{self.overload}{tree_map(describe, self.arguments)}{tree_map(describe, dict(self.keywords))}"


def case(overload: Any, *arguments: Any, **keywords: Any) -> Case:
    """A case in the spelling of a call."""
    return Case(overload, arguments, keywords)


def graph_of(cases: Sequence[Case]) -> tuple[fx.GraphModule, list[torch.Tensor]]:
    """A graph that makes every call, and its inputs."""
    graph = fx.Graph()
    inputs = [tensor for one in cases for tensor in one.inputs()]
    returned: list[fx.Node] = []
    with FakeTensorMode() as mode:
        placeholders = [graph.placeholder(f"input_{index}") for index in range(len(inputs))]
        for node, tensor in zip(placeholders, inputs, strict=True):
            node.meta["val"] = mode.from_tensor(tensor)
        pending = iter(placeholders)
        for one in cases:
            nodes = {id(tensor): next(pending) for tensor in one.inputs()}
            returned.extend(_add_call(graph, one, nodes))
    graph.output(tuple(returned))
    return fx.GraphModule(torch.nn.Module(), graph), inputs


def _add_call(graph: fx.Graph, one: Case, nodes: Mapping[int, fx.Node]) -> list[fx.Node]:
    arguments, keywords = tree_map(lambda leaf: nodes.get(id(leaf), leaf), (one.arguments, dict(one.keywords)))
    call = graph.call_function(one.overload, arguments, keywords)
    fake_arguments, fake_keywords = tree_map(
        lambda leaf: leaf.meta["val"] if isinstance(leaf, fx.Node) else leaf, (arguments, keywords)
    )
    value = call.meta["val"] = one.overload(*fake_arguments, **fake_keywords)
    if isinstance(value, torch.Tensor):
        return [call]
    items = []
    for index, element in enumerate(value):
        if element is not None:
            item = graph.call_function(operator.getitem, (call, index))
            item.meta["val"] = element
            items.append(item)
    return items


def trace(function: Any, *inputs: torch.Tensor) -> fx.GraphModule:
    """A functional aten graph of a Python function."""
    return make_fx(torch.func.functionalize(function), tracing_mode="fake")(*inputs)


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """A contiguous copy in memory that the host device can take."""
    return aligned_empty(tensor.shape, tensor.dtype).copy_(tensor)


class Host:
    """Lowers, compiles and runs graphs in this process."""

    def __init__(self) -> None:
        self.target = HostTarget()
        self.device = PjrtDevice()

    def lower(
        self, module: fx.GraphModule, numerics: Any = "fast", aliases: Mapping[int, int] | None = None
    ) -> LoweredModule:
        """Lower with the host's options."""
        return lower_graph(module, self.target.lowering_options(numerics), aliases)

    def load(
        self, module: fx.GraphModule, numerics: Any = "fast", aliases: Mapping[int, int] | None = None
    ) -> PjrtExecutable:
        """Lower, compile and load."""
        return self.device.load(self.target.compile(self.lower(module, numerics, aliases)))

    def run(self, module: fx.GraphModule, inputs: Sequence[torch.Tensor], numerics: Any = "fast") -> list[torch.Tensor]:
        """Lower, compile, load and execute on copies of the inputs."""
        executable = self.load(module, numerics)
        memory = [aligned(one) for one in inputs]
        outputs = executable.execute([self.device.buffer(one) for one in memory])
        return [self.device.to_torch(one).clone() for one in outputs]

    def results(self, cases: Sequence[Case], numerics: Any) -> list[list[torch.Tensor]]:
        """The host's results for each case, all from one program."""
        module, inputs = graph_of(cases)
        flat = iter(self.run(module, inputs, numerics))
        return [[next(flat) for _ in one.eager()] for one in cases]
