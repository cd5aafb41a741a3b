"""What a pipeline of passes knows about its graph, and what the passes leave for the lowering."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from .interval import Interval
from .result_type import as_type, result_type
from .weight_layout import WeightLayout

STAGE = "stage"
"""Key of a node's metadata: number of the stage of the step that it belongs to."""

REACH = "reach"
"""Key of a node's metadata: first element, and the one after the last, between which a gather or store of rows stays.

They count in the contiguous tensor that holds the rows. Right indices stay in between; wrong ones, which eager
PyTorch refuses, may touch anything there.
"""


@dataclass
class PassContext:
    """Facts given to the passes (first five) and results they leave behind (the rest).

    Attributes:
        target: name of the target the graph is shaped for.
        input_keys: one key per placeholder; equal keys mean the same memory seen the same way. Empty: unknown.
        holds_bfloat16: whether every value of a float32 input is a bfloat16 value; asked by input index.
        is_weight: whether an input, asked by index, is only read and can be arranged anew when it is loaded.
        value_range: the range of an integer input, asked by index; None if it is not known.
        aliases: output index -> input index of every input that the step updates.
        carriers: input index -> dtype the program takes instead of the tensor's own. Of equal width it has the same
            bits, a narrower one the same values.
        layouts: input index -> how the elements of a weight are arranged for the program.
        unused_inputs: indices of inputs that nothing reads, which compilers may drop from a program.
        result_dtypes: output index -> dtype of the values that the program returns in another type, as for carriers.
        stage_names: names of the stages by number, in the order of the program.
    """

    target: str = "host"
    input_keys: Sequence[Hashable] = ()
    holds_bfloat16: Callable[[int], bool] = lambda position: False
    is_weight: Callable[[int], bool] = lambda position: False
    value_range: Callable[[int], Interval | None] = lambda position: None
    aliases: dict[int, int] = field(default_factory=dict)
    carriers: dict[int, torch.dtype] = field(default_factory=dict)
    layouts: dict[int, WeightLayout] = field(default_factory=dict)
    unused_inputs: list[int] = field(default_factory=list)
    result_dtypes: dict[int, torch.dtype] = field(default_factory=dict)
    stage_names: list[str] = field(default_factory=list)


def placeholders(module: fx.GraphModule) -> list[fx.Node]:
    """The graph's inputs in order."""
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def output_node(module: fx.GraphModule) -> fx.Node:
    """The graph's single output node, whose first argument is the flat tuple of results."""
    return next(node for node in reversed(module.graph.nodes) if node.op == "output")


def arguments(node: fx.Node) -> tuple[Any, ...]:
    """A node's arguments, whose nesting differs by operator."""
    return node.args


def arguments_by_name(node: fx.Node) -> dict[str, Any]:
    """The arguments of a call of an operator by their names in its schema, defaults included."""
    assert isinstance(node.target, torch._ops.OpOverload)
    schema = node.target._schema.arguments
    given = dict(zip((one.name for one in schema), node.args, strict=False))
    return {**{one.name: one.default_value for one in schema if one.has_default_value()}, **given, **node.kwargs}


def results(module: fx.GraphModule) -> tuple[Any, ...]:
    """The nodes that the graph returns."""
    return arguments(output_node(module))[0]


def clone_before(anchor: fx.Node, value: fx.Node) -> fx.Node:
    """Insert a clone of ``value`` in front of ``anchor``; it keeps dtype, shape and source location."""
    with anchor.graph.inserting_before(anchor):
        clone = anchor.graph.call_function(torch.ops.aten.clone.default, (value,))
    clone.meta.update(value.meta)
    return clone


def emit_before(anchor: fx.Node, target: torch._ops.OpOverload, *args: object, **kwargs: object) -> fx.Node:
    """Insert a call in front of ``anchor`` with its source location, and compute the result's type."""
    node = anchor.graph.create_node("call_function", target, args, kwargs)  # pyright: ignore[reportArgumentType]
    anchor.prepend(node)
    node.meta.update(anchor.meta)
    types, keywords = fx.map_arg((args, kwargs), lambda source: as_type(source.meta["val"]))  # pyright: ignore
    node.meta["val"] = result_type(target, types, keywords)
    return node


def erase_unused(graph: fx.Graph) -> int:
    """Erase calls and constants that nothing uses, in a functional graph; returns how many there were."""
    erased = 0
    for node in reversed(graph.nodes):
        if not node.users and node.op in ("call_function", "get_attr"):
            graph.erase_node(node)
            erased += 1
    return erased
