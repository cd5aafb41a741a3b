"""Which integers each value of a graph can be, from what is known about its inputs.

One walk from the inputs to the outputs. An operator without a rule may give every value of its type, and so may one
whose result could leave its type, because it wraps around there.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from .context import arguments_by_name, placeholders
from .interval import Interval
from .range_rules import POSITIONS, RULES


class ValueRanges:
    """Ranges of the integer and boolean values of a graph.

    Args:
        input_range: the range of an input, asked by its index; None where nothing is known.
    """

    def __init__(self, module: fx.GraphModule, input_range: Callable[[int], Interval | None]):
        self._ranges: dict[fx.Node, Interval | tuple[Interval | None, ...]] = {}
        positions = {node: position for position, node in enumerate(placeholders(module))}
        for node in module.graph.nodes:
            if node.op == "placeholder" and _is_integer(node.meta.get("val")):
                self._ranges[node] = input_range(positions[node]) or _every_value(node.meta["val"])
            elif node.op == "get_attr" and _is_integer(node.meta.get("val")):
                self._ranges[node] = Interval.of_tensor(getattr(module, str(node.target)))
            elif node.op == "call_function":
                self._visit(node)

    def __getitem__(self, node: fx.Node) -> Interval:
        """The range of a node that is one integer tensor."""
        found = self._ranges[node]
        assert isinstance(found, Interval)
        return found

    def _visit(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        if node.target is operator.getitem:
            source, position = node.args
            if value is not None and _is_integer(value):
                parts = self._ranges.get(source)  # pyright: ignore[reportArgumentType]
                part = parts[position] if isinstance(parts, tuple) else None  # pyright: ignore
                self._ranges[node] = part or _every_value(value)
        elif isinstance(value, (tuple, list)):
            self._ranges[node] = tuple(self._of_result(node, one, number) for number, one in enumerate(value))
        elif _is_integer(value):
            found = self._of_result(node, value, 0)
            assert found is not None
            self._ranges[node] = found

    def _of_result(self, node: fx.Node, value: Any, number: int) -> Interval | None:
        if not _is_integer(value):
            return None
        whole = _every_value(value)
        rules: Any = POSITIONS if number and node.target in POSITIONS else RULES
        rule = rules.get(node.target)
        if rule is None or 0 in value.shape:
            return whole
        found = rule(arguments_by_name(node), self._lookup, value)
        return found if found.within(whole) else whole

    def _lookup(self, argument: Any) -> Interval:
        if isinstance(argument, fx.Node):
            found = self._ranges.get(argument)
            if isinstance(found, Interval):
                return found
            return Interval.of_dtype(torch.int64)
        return Interval.around([math.floor(argument), math.ceil(argument)])


def _is_integer(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and not value.dtype.is_floating_point and not value.dtype.is_complex


def _every_value(value: torch.Tensor) -> Interval:
    return Interval(0, 0) if 0 in value.shape else Interval.of_dtype(value.dtype)
