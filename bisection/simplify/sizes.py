"""Smaller shapes. Batch, heads and hidden size are sizes like all others."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, fx
from torch._ops import OpOverload

from ...errors import GraphError
from ...passes.context import placeholders
from .proposal import Proposal
from .retype import retype

_SIZE_ARGUMENT = re.compile(r"SymInt(?:\[\d*\])?\?? (\w+)")
"""In the text of a schema, an argument that is a size or a position. Dimensions are plain ints."""

Resize = Callable[[int], int]


def shrink_sizes(module: fx.GraphModule, aliases: Mapping[int, int]) -> Iterator[Proposal]:
    """Every size, the largest first, as 1, as 2, and halved.

    All dimensions of that size change together, in arguments too; if operators refuse that, together with products of
    it and another size, as views make them, or with all its multiples.
    """
    sizes = _sizes(module)
    for size in sizes:
        for smaller in _smaller(size):
            for resize in (_only(size, smaller), _products(size, smaller, sizes), _multiples(size, smaller)):
                changed = _resized(module, resize)
                if changed is not None and _elements(changed) < _elements(module):
                    yield Proposal(f"size {size} -> {smaller}", changed, aliases)
                    break


def shrink_single_sizes(module: fx.GraphModule, aliases: Mapping[int, int]) -> Iterator[Proposal]:
    """One dimension of one input as 1, whatever others have the same size."""
    for node in placeholders(module):
        shape = list(node.meta["val"].shape)
        for position, size in enumerate(shape):
            if size > 1:
                smaller = [*shape[:position], 1, *shape[position + 1 :]]
                changed = _typed(module, {node: _empty(node, smaller)})
                if changed is not None:
                    yield Proposal(f"dimension {position} of {node.name}, size {size} -> 1", changed, aliases)


def _elements(module: fx.GraphModule) -> int:
    """Of all values of a graph together: what has to shrink, so that the search ends."""
    values = [node.meta.get("val") for node in module.graph.nodes]
    return sum(value.numel() for value in values if isinstance(value, Tensor))


def _sizes(module: fx.GraphModule) -> list[int]:
    values = [node.meta.get("val") for node in module.graph.nodes]
    found = {size for value in values if isinstance(value, Tensor) for size in value.shape}
    return sorted((size for size in found if size > 1), reverse=True)


def _smaller(size: int) -> list[int]:
    return [smaller for smaller in dict.fromkeys((1, 2, size // 2)) if smaller < size]


def _only(size: int, smaller: int) -> Resize:
    return lambda value: smaller if value == size else value


def _products(size: int, smaller: int, sizes: Collection[int]) -> Resize:
    products = {size * other: smaller * other for other in (1, *sizes)}
    return lambda value: products.get(value, value)


def _multiples(size: int, smaller: int) -> Resize:
    return lambda value: value // size * smaller if value and value % size == 0 else value


def _resized(module: fx.GraphModule, resize: Resize) -> fx.GraphModule | None:
    types = {node: _empty(node, list(map(resize, node.meta["val"].shape))) for node in placeholders(module)}
    return _typed(module, types, resize)


def _typed(
    module: fx.GraphModule, types: Mapping[fx.Node, Tensor], resize: Resize = lambda value: value
) -> fx.GraphModule | None:
    """The graph with these inputs; None if an operator refuses them."""

    def rewrite(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        assert isinstance(node.target, OpOverload)
        schema = node.target._schema.arguments
        sized = set(_SIZE_ARGUMENT.findall(str(node.target._schema)))
        changed = [_resize(arg, resize) if one.name in sized else arg for one, arg in zip(schema, args, strict=False)]
        named = {name: _resize(arg, resize) if name in sized else arg for name, arg in kwargs.items()}
        return tuple(changed), named

    try:
        return retype(module, types, rewrite)
    except GraphError:
        return None


def _resize(argument: Any, resize: Resize) -> Any:
    if isinstance(argument, (list, tuple)):
        return [_resize(one, resize) for one in argument]
    return resize(argument) if isinstance(argument, int) and not isinstance(argument, bool) else argument


def _empty(node: fx.Node, shape: list[int]) -> Tensor:
    return torch.empty(shape, dtype=node.meta["val"].dtype, device="meta")
