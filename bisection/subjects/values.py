"""What the nodes of a graph hold when the whole program runs, kept with the nodes so that every part finds its inputs.

A program that is cut out of another one has placeholders in the places of nodes of that one. ``GraphSubject`` hands on
what is kept here, and so each part is run on what it is really fed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, fx

from ...errors import InputError
from ...passes.context import placeholders
from .carried_bits import mark_carried

VALUE = "value"
"""Key of a node's metadata: the ``Value`` that it has; missing for what is no tensor, or was not recorded."""


@dataclass(frozen=True, eq=False)
class Value:
    """A tensor that is not written to any more."""

    tensor: Tensor

    @cached_property
    def digest(self) -> str:
        """sha256 of dtype, shape and elements."""
        plain = self.tensor.detach().contiguous()
        told = hashlib.sha256(f"{plain.dtype}{list(plain.shape)}".encode())
        if plain.numel():
            told.update(plain.reshape(-1).view(torch.uint8).numpy().data)
        return told.hexdigest()


def set_inputs(module: fx.GraphModule, tensors: Sequence[Tensor]) -> None:
    """Give each placeholder its value; raises InputError if one has another dtype or shape."""
    for node, tensor in zip(placeholders(module), tensors, strict=True):
        expected = node.meta["val"]
        if tensor.dtype is not expected.dtype or tensor.shape != expected.shape:
            raise InputError(
                f"input {node.name} is {tensor.dtype}{list(tensor.shape)}: expected "
                f"{expected.dtype}{list(expected.shape)}"
            )
        node.meta[VALUE] = Value(tensor.detach())


def record_values(module: fx.GraphModule) -> None:
    """Run a graph once in eager PyTorch on the values of its placeholders, and keep the value of every node.

    Also marks integers that hold the bits of floats, see ``carried_bits``.

    Raises:
        InputError: a placeholder has no value.
    """
    mark_carried(module)
    inputs = inputs_of(module)
    if inputs is None:
        raise InputError("a graph whose inputs have no values: give it some first (set_inputs)")
    with torch.no_grad():
        _Recording(module).run(*(one.tensor for one in inputs))


def inputs_of(module: fx.GraphModule) -> list[Value] | None:
    """The values of the placeholders; None if any has none."""
    inputs = placeholders(module)
    return [node.meta[VALUE] for node in inputs] if all(VALUE in node.meta for node in inputs) else None


def values_digest(module: fx.GraphModule) -> str:
    """sha256 of the values of all placeholders; empty if any has none."""
    values = inputs_of(module)
    return hashlib.sha256("".join(one.digest for one in values).encode()).hexdigest() if values else ""


class _Recording(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if isinstance(result, Tensor) and n.op != "placeholder":
            n.meta[VALUE] = Value(result)
        return result
