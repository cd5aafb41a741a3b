"""What must hold in a graph: always, or from the pass on that promises it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from ..errors import GraphError
from .context import PassContext, arguments_by_name, output_node, placeholders, results
from .index_bounds import unbounded_indices
from .locations import source_line
from .order_cache_reads import late_reads
from .strided_view import VIEWS
from .target_facts import facts_of

_FLOAT8 = {torch.float8_e4m3fn, torch.float8_e4m3fnuz, torch.float8_e5m2, torch.float8_e5m2fnuz, torch.float8_e8m0fnu}

_WIDE_INTEGERS = {torch.int64, torch.uint64}

_FLOAT8_RANGE = "fp8_max"
"""The argument of operators that round to e4m3: the largest value that they may give, None for no rounding."""


@dataclass(frozen=True)
class Invariant:
    """A rule and the function that yields a sentence for each node that breaks it."""

    rule: str
    violations: Callable[[fx.GraphModule, PassContext], Iterator[str]]


def verify(module: fx.GraphModule, context: PassContext, invariants: Iterable[Invariant]) -> None:
    """Raise GraphError listing every one of ``invariants`` that ``module`` breaks, and where."""
    problems = [
        f"{invariant.rule}: {problem}" for invariant in invariants for problem in invariant.violations(module, context)
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


def _no_strided_views(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    for node in module.graph.nodes:
        if "as_strided" in getattr(node.target, "__name__", ""):
            source = node.args[0].meta["val"]
            yield f"{node.format_node()} reads a tensor of strides {source.stride()}; make it contiguous first"


def _no_float8_boundary(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    for node in [*placeholders(module), *output_node(module).all_input_nodes]:
        if any(isinstance(value, torch.Tensor) and value.dtype in _FLOAT8 for value in _values(node)):
            yield f"{node.name} is float8; carry it as uint8"


def _float8_range(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    facts = facts_of(context.target)
    found: Counter[tuple[str, str, float]] = Counter()
    for graph in [one.graph for one in module.modules() if isinstance(one, fx.GraphModule)]:
        for node in graph.nodes:
            if isinstance(node.target, torch._ops.OpOverload):
                largest = arguments_by_name(node).get(_FLOAT8_RANGE)
                if largest is not None and largest > facts.e4m3_max:
                    found[str(node.target), str(source_line(node) or "an unknown line"), largest] += 1
    for (name, line, largest), count in found.items():
        yield (
            f"{name} at {line} ({count} in the step) rounds to float8 up to {largest:.0f}, which ends at "
            f"{facts.e4m3_max:.0f} on {context.target}, so values would saturate there: build the model for the "
            f"target, with Numerics(fp8_max={facts.fp8_max}) as target_numerics({context.target!r}) has it, which also "
            "brings its float8 weights into that range"
        )


def _no_late_reads(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    for read, store in late_reads(module, context) if context.target != "host" else ():
        yield (
            f"{read.name} reads an old value behind {store.name}, which writes over it and which it depends on: "
            "read it before the update, or read the new value"
        )


def _no_input_bitcast(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    if facts_of(context.target).bitcasts_inputs:
        return
    for node in module.graph.nodes:
        if node.target is torch.ops.aten.view.dtype:
            source = _behind_views(node.args[0])
            if source.op == "placeholder":
                kept, seen = source.meta["val"].dtype, node.args[1]
                yield f"{node.name} reads the {kept} input {source.name} as {seen}; keep the tensor as {seen}"


def _behind_views(node: fx.Node) -> fx.Node:
    while node.target in VIEWS or node.target in {torch.ops.aten.view.dtype, torch.ops.aten.reshape.default}:
        node = node.all_input_nodes[0]
    return node


def _no_wide_integers(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    if facts_of(context.target).has_int64:
        return
    for graph in [one.graph for one in module.modules() if isinstance(one, fx.GraphModule)]:
        for node in graph.nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor) and value.dtype in _WIDE_INTEGERS and not _is_narrowed(node):
                yield f"{node.name} holds 64-bit integers, which {context.target} does not have; compute in int32"


def _is_narrowed(node: fx.Node) -> bool:
    """Whether nothing reads a value but conversions of a result, which is then made as int32."""
    casts = [
        user.target is torch.ops.aten._to_copy.default and user.kwargs.get("dtype") is torch.int32
        for user in node.users
    ]
    return all(casts) if node.op == "call_function" else not casts


def _bounded_indices(module: fx.GraphModule, context: PassContext) -> Iterator[str]:
    for node, source in unbounded_indices(module, context) if context.target != "host" else ():
        yield (
            f"{node.name} addresses memory by the input {source.name}, of which no largest value is known; declare it "
            "as the slot's maximum, or clamp the index"
        )


KNOWN_TYPES = Invariant("every value has a known type", _described_values)
STATIC_SHAPES = Invariant("shapes are static", _static_shapes)
UNIQUE_NAMES = Invariant("names are unique and defined before use", _unique_names_in_order)
FUNCTIONAL = Invariant("operators are functional", _functional)
ONE_ALIAS = Invariant("each updated input has one aliased output of its own type", _one_alias_per_update)
NO_STRIDED_VIEWS = Invariant("no view by strides", _no_strided_views)
NO_FLOAT8_BOUNDARY = Invariant("float8 does not cross the boundary", _no_float8_boundary)
FLOAT8_RANGE = Invariant("float8 stays in the range of the target", _float8_range)
NO_INPUT_BITCAST = Invariant("no input is read as another type", _no_input_bitcast)
NO_WIDE_INTEGERS = Invariant("integers have the widths of the target", _no_wide_integers)
BOUNDED_INDICES = Invariant("every input that addresses memory has a bound", _bounded_indices)
NO_LATE_READS = Invariant("no read of a cache behind its update", _no_late_reads)

ALWAYS = (KNOWN_TYPES, STATIC_SHAPES, UNIQUE_NAMES)
