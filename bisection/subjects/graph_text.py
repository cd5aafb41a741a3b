"""An FX graph of aten operators as text for people: an operation a line, with its type and the model's line."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import fx
from torch._ops import HigherOrderOperator, OpOverload

from ...compiler.lowering.tensor import MLIR_NAMES
from ...passes.context import arguments, output_node, placeholders
from ...passes.locations import source_line
from ...runtime.dtype_names import name_of

_SHOWN_VALUES = 8
"""A constant with more values is shown by its type alone."""


def graph_text(module: fx.GraphModule, aliases: Mapping[int, int] | None = None) -> str:
    """The graph as text, with the graphs of its loops below it.

    Args:
        aliases: output index -> index of the input whose memory it reuses.
    """
    inputs = placeholders(module)
    lines = ["graph(", *(f"  {node_text(node)}" for node in inputs), "):"]
    for node in module.graph.nodes:
        if node.op == "call_function" or (node.op == "get_attr" and not _is_graph(node)):
            line = source_line(node)
            lines.append(f"  {node_text(node)}" + (f"  # {line}" if line else ""))
    reused = {index: f" in the memory of %{inputs[source].name}" for index, source in (aliases or {}).items()}
    returned = [f"{_argument(one)}{reused.get(index, '')}" for index, one in enumerate(_returned(module))]
    lines.append(f"  return {', '.join(returned)}")
    inner = [str(node.target) for node in module.graph.find_nodes(op="get_attr") if _is_graph(node)]
    for name in inner:
        body = graph_text(getattr(module, name)).splitlines()
        lines += [f"where {name} is", *(f"  {line}" for line in body)]
    return "\n".join(lines)


def node_text(node: fx.Node) -> str:
    """One node, such as ``%mm = aten.mm.default(%x, %w) : bf16[4, 512]``."""
    type_ = type_text(node.meta.get("val"))
    if node.op == "placeholder":
        return f"%{node.name} : {type_}"
    if node.op == "get_attr":
        return f"%{node.name} = constant{_values(_attribute(node))} : {type_text(_attribute(node))}"
    given = [_argument(one) for one in node.args]
    given += [f"{name}={_argument(value)}" for name, value in node.kwargs.items()]
    return f"%{node.name} = {target_text(node.target)}({', '.join(given)}) : {type_}"


def target_text(target: Any) -> str:
    """The name of an operator with namespace and overload, or of a function."""
    if isinstance(target, OpOverload):
        return str(target)
    if isinstance(target, HigherOrderOperator):
        return target.name()
    return str(getattr(target, "__name__", target))


def type_text(value: Any) -> str:
    """Dtype and shape of a tensor, such as ``bf16[4, 512]``, or of each of several; other values as Python has them."""
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(type_text, value))})"
    if not isinstance(value, torch.Tensor):
        return repr(value)
    name = MLIR_NAMES.get(value.dtype) or name_of(value.dtype)
    return f"{name}{list(value.shape)}"


def _returned(module: fx.GraphModule) -> list[fx.Node]:
    """What a graph returns; the condition of a loop returns one tensor that is in no tuple."""
    returned = arguments(output_node(module))[0]
    return [returned] if isinstance(returned, fx.Node) else list(returned)


def _argument(argument: Any) -> str:
    if isinstance(argument, fx.Node):
        return f"@{argument.target}" if argument.op == "get_attr" and _is_graph(argument) else f"%{argument.name}"
    if isinstance(argument, (list, tuple)):
        inner = ", ".join(map(_argument, argument))
        return f"[{inner}]" if isinstance(argument, list) else f"({inner}{',' * (len(argument) == 1)})"
    if isinstance(argument, torch.dtype):
        return MLIR_NAMES.get(argument) or str(argument)
    return str(argument) if isinstance(argument, (torch.device, torch.layout)) else repr(argument)


def _values(value: Any) -> str:
    few = isinstance(value, torch.Tensor) and value.numel() <= _SHOWN_VALUES
    return f" {value.tolist()}" if few else ""


def _attribute(node: fx.Node) -> Any:
    return getattr(node.graph.owning_module, str(node.target))


def _is_graph(node: fx.Node) -> bool:
    return isinstance(_attribute(node), fx.GraphModule)
