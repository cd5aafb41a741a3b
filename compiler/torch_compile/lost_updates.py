"""Updates that PyTorch 2.13 drops before a backend sees them, or refuses to trace."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, fx

from ...errors import CaptureError, GraphError
from ...passes.locations import source_line

_IN_PLACE = {
    getattr(operator, name)
    for name in ("iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "iand", "ior", "ixor", "setitem")
}


_OVERLAPS = ("a tensor being mutated that has internal overlap", "more than one element of the written-to tensor")


@contextmanager
def explained_overlaps() -> Iterator[None]:
    """Raise CaptureError where AOTAutograd refuses to update a tensor whose own elements share memory."""
    try:
        yield
    except RuntimeError as error:
        if not any(text in str(error) for text in _OVERLAPS):
            raise
        raise CaptureError(
            f"a tensor whose elements share memory (by expand or unfold) is updated in place: clone it first; {error}"
        ) from error


def refuse_lost_updates(module: fx.GraphModule) -> None:
    """Check a graph of Dynamo's: AOTAutograd forgets what happens in place to a 0-d float64 input.

    Every backend that uses it is given a graph without the update ("aot_eager" and "inductor" as well).

    Raises:
        GraphError: naming the line and what to write instead.
    """
    for node in module.graph.nodes:
        if node.args and isinstance(node.args[0], fx.Node) and _is_wide_number(node.args[0]) and _updates(node):
            line = source_line(node)
            where = f" at {line}" if line else ""
            raise GraphError(
                f"{node.target}{where} updates a 0-d float64 input, which PyTorch's AOTAutograd forgets: give the "
                "input the shape [1], or return the new value"
            )


def _is_wide_number(node: fx.Node) -> bool:
    value = node.meta.get("example_value")
    is_number = isinstance(value, Tensor) and value.dtype is torch.float64 and not value.dim()
    return node.op == "placeholder" and is_number


def _updates(node: fx.Node) -> bool:
    if node.op == "call_method":
        name = str(node.target)
        return name.endswith("_") and not name.endswith("__")
    return node.op == "call_function" and node.target in _IN_PLACE
