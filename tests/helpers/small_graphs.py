"""Small aten graphs with typed nodes, from a function."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deepinfer_neuron.compiler.lowering.record import record
from torch import Tensor, fx


def graph_of(function: Callable[..., object], inputs: Sequence[Tensor]) -> fx.GraphModule:
    """The graph of ``function``, returning a flat tuple."""
    module = record(function, inputs)
    output = next(node for node in module.graph.nodes if node.op == "output")
    returned = output.args[0]
    output.args = (tuple(returned) if isinstance(returned, (tuple, list)) else (returned,),)
    return module


def operators(module: fx.GraphModule) -> list[str]:
    """Names of the operators that a graph calls, in order."""
    return [str(node.target) for node in module.graph.nodes if node.op == "call_function"]
