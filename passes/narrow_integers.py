"""Compute on 32-bit integers where a target has no wider ones, and refuse values that do not fit.

PyTorch's own index operators take and give int64. A compiler that silently keeps the lower half of each value is right
for all positions there are and wrong for a hash; which of the two a value is follows from the ranges of the inputs
(``value_ranges.py``). Inputs become int32 carriers of the same values. An operator that gives int64 whatever it is
given, such as sort, is followed by a conversion.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate

from ..errors import GraphError
from .context import PassContext, arguments_by_name, placeholders, results
from .interval import Interval
from .locations import source_line
from .result_type import as_type, result_type
from .target_facts import facts_of
from .value_ranges import ValueRanges

aten = torch.ops.aten

_ADVICE = (
    "declare a smaller maximum for the inputs it comes from, or compute it in torch.int32 where it may wrap around"
)
_CASTS = {aten._to_copy.default, torch.ops.prims.convert_element_type.default}
_WIDE_ONLY = {aten.index_fill.int_Scalar, aten.index_fill.int_Tensor, aten.take.default, aten.put.default}


def narrow_integers(module: fx.GraphModule, context: PassContext) -> int:
    """Retype int64 values int32 for targets without int64; returns how many there were.

    Leaves ``context.carriers`` for the inputs and ``context.result_dtypes`` for the outputs.

    Raises:
        GraphError: a value may need more than 32 bits, or an operator has no 32-bit form.
    """
    if facts_of(context.target).has_int64:
        return 0
    inputs = placeholders(module)
    for source in context.aliases.values():
        if _is_wide(inputs[source].meta["val"]):
            raise GraphError(
                f"the step updates the int64 input {inputs[source].name!r}, and {context.target} has 32-bit integers "
                "only: keep it in an int32 buffer"
            )
    wide = [position for position, node in enumerate(results(module)) if _is_wide(node.meta["val"])]
    context.result_dtypes.update(dict.fromkeys(wide, torch.int64))
    narrowing = _Narrowing(module, context.value_range)
    narrowing.run()
    context.carriers.update({inputs.index(node): torch.int32 for node in narrowing.narrowed.intersection(inputs)})
    return len(narrowing.narrowed)


def narrow_decomposition(module: fx.GraphModule) -> None:
    """Retype the int64 values inside a decomposition whose arguments may have any value of their types.

    Raises:
        GraphError: as for ``narrow_integers``.
    """
    _Narrowing(module, lambda position: None).run()


class _Narrowing:
    """One walk over a graph; ``narrowed`` are the nodes that were int64 and are int32 now."""

    def __init__(self, module: fx.GraphModule, input_range: Callable[[int], Interval | None]):
        self.module = module
        self.ranges = ValueRanges(module, input_range)
        self.narrowed: set[fx.Node] = set()

    def run(self) -> None:
        for node in list(self.module.graph.nodes):
            if node.op == "placeholder" and _is_wide(node.meta.get("val")) and node.users:
                self._check_range(node)
                self._retype(node, _as_int32(node))
            elif node.op == "get_attr" and _is_wide(node.meta.get("val")):
                self._check_range(node)
                self._retype_constant(node)
            elif node.op == "call_function":
                self._visit_call(node)

    def _visit_call(self, node: fx.Node) -> None:
        before = node.meta["val"]
        if not any(map(_is_wide, _values(before))) and self.narrowed.isdisjoint(node.all_input_nodes):
            return
        if _is_wide(before):
            self._check_range(node)
        after = self._narrow_call(node)
        if _is_wide(after):
            self._narrow_behind(node)
        elif node.target in _CASTS and _is_unchanged(node, after):
            node.replace_all_uses_with(node.all_input_nodes[0])
            node.graph.erase_node(node)
        elif _is_wide(before) or isinstance(before, (tuple, list)):
            self._retype(node, after)

    def _narrow_call(self, node: fx.Node) -> Any:
        """Let a call take int32 and make it where it can; returns what it makes."""
        if node.target is operator.getitem:
            return node.args[0].meta["val"][node.args[1]]  # pyright: ignore
        if not isinstance(node.target, torch._ops.OpOverload) or node.target in _WIDE_ONLY:
            raise _refusal(node, "takes int64 only: write it with operators that take int32")
        if node.target is aten.view.dtype:
            raise _refusal(node, "takes int64 apart into bits: compute with the numbers, or on int32")
        if node.target is aten.index_copy.default:
            _write_index_copy_as_put(node)
        _check_numbers(node)
        changed: Any = map_aggregate((node.args, node.kwargs), lambda one: torch.int32 if one is torch.int64 else one)
        node.args, node.kwargs = changed
        after = _evaluate(node)
        if _is_wide(after) and "dtype" in arguments_by_name(node):
            node.kwargs = {**node.kwargs, "dtype": torch.int32}
            after = _evaluate(node)
        return after

    def _narrow_behind(self, node: fx.Node) -> None:
        with node.graph.inserting_after(node):
            narrow = node.graph.call_function(aten._to_copy.default, (node,), {"dtype": torch.int32})
        node.replace_all_uses_with(narrow, delete_user_cb=lambda user: user is not narrow)
        narrow.meta.update(node.meta)
        self._retype(narrow, _as_int32(node))

    def _retype_constant(self, node: fx.Node) -> None:
        name = f"{node.target}_int32"
        self.module.register_buffer(name, getattr(self.module, str(node.target)).to(torch.int32))
        node.target = name
        self._retype(node, _as_int32(node))

    def _retype(self, node: fx.Node, value: Any) -> None:
        node.meta["val"] = value
        self.narrowed.add(node)

    def _check_range(self, node: fx.Node) -> None:
        if not self.ranges[node].fits(torch.int32):
            raise _refusal(node, f"may be anything in {self.ranges[node]}, which needs int64: {_ADVICE}")


def _values(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _is_wide(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype is torch.int64


def _as_int32(node: fx.Node) -> torch.Tensor:
    return as_type(node.meta["val"]).to(torch.int32)


def _is_unchanged(node: fx.Node, value: torch.Tensor) -> bool:
    """Whether a cast has become a copy."""
    (source,) = node.all_input_nodes
    given = source.meta["val"]
    return (given.dtype, given.stride()) == (value.dtype, value.stride())


def _evaluate(node: fx.Node) -> Any:
    target: Any = node.target
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda source: as_type(source.meta["val"]))  # pyright: ignore
    try:
        return result_type(target, args, kwargs)
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise _refusal(node, f"has no form for int32: {error}") from error


def _check_numbers(node: fx.Node) -> None:
    """Refuse numbers that PyTorch would not take, or would wrap around, beside int32 tensors."""
    schema = node.target._schema.arguments  # pyright: ignore
    given = arguments_by_name(node)
    for name in (one.name for one in schema if "number" in str(one.type).lower()):
        number = given.get(name)
        if isinstance(number, int) and not Interval(number, number).fits(torch.int32):
            raise _refusal(node, f"uses the number {number}, which needs int64: {_ADVICE}")


def _write_index_copy_as_put(node: fx.Node) -> None:
    """index_copy takes int64 positions only; index_put is the same store."""
    given = arguments_by_name(node)
    source: Any = given["self"]
    axis = given["dim"] % max(source.meta["val"].dim(), 1)
    node.target = aten.index_put.default
    node.args = (source, [*[None] * axis, given["index"]], given["source"])
    node.kwargs = {}


def _refusal(node: fx.Node, reason: str) -> GraphError:
    line = source_line(node) or next((found for found in map(source_line, node.users) if found), None)
    where = f" at {line}" if line else ""
    return GraphError(f"{node.name} ({node.target}){where} {reason}")
