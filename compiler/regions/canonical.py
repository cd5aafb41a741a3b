"""One text for all regions that compute the same: what a program depends on, and no name.

Nodes are numbered in order. The text holds every operator with all its arguments and literals, every dtype and shape,
the values of constant tensors, and which output aliases which input.
"""

from __future__ import annotations

import hashlib
from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_aggregate

from .cut import Region

aten = torch.ops.aten

COMMUTATIVE = frozenset({aten.add.Tensor, aten.mul.Tensor, aten.maximum.default, aten.minimum.default})
"""Operators whose two arguments are put in the order of their numbers."""


def canonical_digest(region: Region) -> str:
    """sha256 of ``canonical_text``: equal for regions that one program serves."""
    return hashlib.sha256(canonical_text(region).encode()).hexdigest()


def canonical_text(region: Region) -> str:
    """The region's graph without names, and its aliases."""
    return f"{_graph_text(region.module)}\naliases {sorted(region.aliases.items())}"


def _graph_text(module: fx.GraphModule) -> str:
    numbers: dict[fx.Node, int] = {}
    lines = []
    for node in module.graph.nodes:
        args, kwargs = map_aggregate((node.args, node.kwargs), lambda one: _argument(one, numbers))
        if node.op == "placeholder":
            args = ()
        elif node.target in COMMUTATIVE and not kwargs and all(isinstance(one, fx.Node) for one in node.args):
            args = sorted(args)
        lines.append(f"%{len(numbers)} = {_target(module, node)} {args!r} {kwargs!r} : {_type(node.meta.get('val'))}")
        numbers[node] = len(numbers)
    return "\n".join(lines)


class _Number(int):
    def __repr__(self) -> str:
        return f"%{int(self)}"


def _argument(argument: Any, numbers: dict[fx.Node, int]) -> Any:
    return _Number(numbers[argument]) if isinstance(argument, fx.Node) else argument


def _target(module: fx.GraphModule, node: fx.Node) -> str:
    if node.op != "get_attr":
        return f"{node.target}" if node.op == "call_function" else node.op
    held = getattr(module, str(node.target))
    if isinstance(held, fx.GraphModule):
        return f"graph[{_graph_text(held)}]"
    plain = held.detach().contiguous().reshape(-1).view(torch.uint8)
    return f"constant[{hashlib.sha256(bytes(plain.tolist())).hexdigest()} {_type(held)}]"


def _type(value: Any) -> str:
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(_type, value))})"
    return f"{value.dtype}{list(value.shape)}" if isinstance(value, Tensor) else repr(value)
