"""What must hold in every graph that the passes hand to the lowering."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ..errors import GraphError
from .context import PassContext, output_node, placeholders, results

_FLOAT8 = {torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu}


@dataclass(frozen=True)
class Invariant:
    """A rule and the function that yields a sentence for each node that breaks it."""

    rule: str
    violations: Callable[[fx.GraphModule, PassContext], Iterator[str]]


def verify(module: fx.GraphModule, context: PassContext) -> None:
    """Raise GraphError listing every broken invariant of ``module``."""
    problems = [
        f"{invariant.rule}: {problem}" for invariant in INVARIANTS for problem in invariant.violations(module, context)
    ]
    if problems:
        raise GraphError("the graph cannot be lowered:\n  " + "\n  ".join(problems))


def _values(node: fx.Node) -> list[Any]:
    value = node.meta.get("val")
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _described_values(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    for node in module.graph.nodes:
        if node.op in {"placeholder", "call_function"} and node.meta.get("val") is None:
            yield f"{node.format_node()} has no shape and dtype"


def _static_shapes(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    for node in module.graph.nodes:
        for value in _values(node):
            sizes = value.shape if isinstance(value, torch.Tensor) else (value,)
            if any(isinstance(size, (torch.SymInt, torch.SymFloat, torch.SymBool)) for size in sizes):
                yield f"{node.name} is {value}; compile each shape with dynamic=False"


def _functional(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    for node in module.graph.nodes:
        if isinstance(node.target, torch._ops.OpOverload) and node.target._schema.is_mutable:
            yield f"{node.format_node()} updates its argument"


def _one_alias_per_update(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    inputs, returned = placeholders(module), results(module)
    if len(set(context.aliases.values())) != len(context.aliases):
        yield f"two outputs update one input: {context.aliases}"
    for position, source in context.aliases.items():
        value, root = returned[position].meta["val"], inputs[source].meta["val"]
        if (value.dtype, value.shape) != (root.dtype, root.shape):
            yield f"output {position} is {value.dtype} {list(value.shape)}, its input {inputs[source].name} is not"


def _unique_names_in_order(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    seen: set[str] = set()
    for node in module.graph.nodes:
        if node.name in seen:
            yield f"the name {node.name} is used twice"
        late = [source.name for source in node.all_input_nodes if source.name not in seen]
        yield from (f"{node.name} uses {source} before it is made" for source in late)
        seen.add(node.name)


def _no_float8_boundary(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    if context.target == "host":
        return
    for node in [*placeholders(module), *output_node(module).all_input_nodes]:
        if any(isinstance(value, torch.Tensor) and value.dtype in _FLOAT8 for value in _values(node)):
            yield f"{node.name} is float8; carry it as uint8"


INVARIANTS = (
    Invariant("every value has a known type", _described_values),
    Invariant("shapes are static", _static_shapes),
    Invariant("operators are functional", _functional),
    Invariant("each updated input has one aliased output of its own type", _one_alias_per_update),
    Invariant("names are unique and defined before use", _unique_names_in_order),
    Invariant("float8 does not cross the boundary", _no_float8_boundary),
)
