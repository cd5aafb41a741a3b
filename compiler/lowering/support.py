"""Checks a graph before lowering, so that one error lists everything the model has to change."""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from ...errors import LoweringError
from ...passes.locations import SourceLine, source_line
from .control_flow import WHILE_LOOP, loop_graphs
from .decompose import Decompositions
from .registry import LOWERINGS

aten = torch.ops.aten

DROPPED = frozenset(
    {
        aten._assert_async.msg,
        aten._assert_async.default,
        aten._assert_scalar.default,
        aten._assert_tensor_metadata.default,
    }
)

ADVICE = {
    "index": "a boolean mask has a shape that depends on data: use torch.where, or integer positions",
    "nonzero": "its shape depends on data: keep all positions and a mask, and use torch.where",
    "masked_select": "its shape depends on data: use torch.where with a fill value",
    "repeat_interleave": "give output_size, the length of the result",
    "bincount": "count with torch.zeros(n, dtype=torch.int64).scatter_add(0, x, torch.ones_like(x))",
    "unique": "its shape depends on data: sort, and compare neighbours",
    "_unique2": "its shape depends on data: sort, and compare neighbours",
    "_local_scalar_dense": "a tensor became a Python number: keep it a tensor (no .item() or .tolist())",
    "as_strided": "write the view with slice, reshape or permute",
    "set_": "a compiled program cannot exchange storages: copy values",
    "multinomial": "draw random numbers outside the compiled step and pass them in",
    "rand": "draw random numbers outside the compiled step and pass them in",
    "randn": "draw random numbers outside the compiled step and pass them in",
    "randint": "draw random numbers outside the compiled step and pass them in",
    "bernoulli": "draw random numbers outside the compiled step and pass them in",
    "native_dropout": "switch the model to eval() or draw the mask outside",
}

DEFAULT_ADVICE = "write it with supported operators, or register a decomposition for it"


def check_graph(graph: fx.Graph, decompositions: Decompositions) -> None:
    """Refuse dynamic shapes and operators without a rule.

    Raises:
        LoweringError: one line for each operator, with its overload, source line and what to write instead.
    """
    problems = list(dict.fromkeys(_problems(graph, decompositions, None, set())))
    if problems:
        raise LoweringError("the graph cannot be lowered:\n" + "\n".join(f"  {problem}" for problem in problems))


def _problems(
    graph: fx.Graph, decompositions: Decompositions, caller: SourceLine | None, sound: set[fx.Graph]
) -> list[str]:
    """The problems of a graph and of what it calls; ``sound`` collects the graphs that have none."""
    if graph in sound:
        return []
    found: list[str] = []
    for node in graph.nodes:
        if node.target in LOWERINGS and not _is_dynamic(node.meta.get("val")):
            continue
        line = source_line(node) or caller
        where = f" at {line}" if line else ""
        if node.op not in ("placeholder", "get_attr", "output", "call_function"):
            found.append(f"{node.op} {node.target}{where}: only aten graphs are lowered")
        elif _is_dynamic(node.meta.get("val")):
            found.append(f"{node.target}{where}: dynamic shape; compile with dynamic=False and pad to fixed sizes")
        elif node.op != "call_function" or node.target in DROPPED:
            continue
        elif node.target is WHILE_LOOP:
            for region in loop_graphs(node):
                found.extend(_problems(region.graph, decompositions, line, sound))
        elif decompositions.exists(node):
            found.extend(_problems_inside(node, where, decompositions, line, sound))
        elif node.target is not operator.getitem:
            found.append(f"{node.target}{where}: no lowering; {advice_for(node.target)}")
    if not found:
        sound.add(graph)
    return found


def _problems_inside(
    node: fx.Node, where: str, decompositions: Decompositions, line: SourceLine | None, sound: set[fx.Graph]
) -> list[str]:
    """The problems of a decomposition, or why there is none for these arguments."""
    try:
        graph = decompositions.graph(node).graph
    except LoweringError as error:
        return [f"{node.target}{where}: {error}"]
    return _problems(graph, decompositions, line, sound)


def _is_dynamic(value: Any) -> bool:
    if isinstance(value, (tuple, list)):
        return any(_is_dynamic(one) for one in value)
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in value.shape)
    return isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool)


def advice_for(target: Any, default: str = DEFAULT_ADVICE) -> str:
    """What to write instead of an operator."""
    name = getattr(target, "_opname", None) or getattr(target, "__name__", "")
    return ADVICE.get(name, default)
