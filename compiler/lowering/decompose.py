"""Graphs of operators that have no rule of their own, traced from their registered decompositions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx
from torch._decomp import decomposition_table
from torch._ops import OpOverload
from torch.fx.node import map_aggregate
from torch.utils._pytree import tree_leaves

from ...errors import LoweringError
from ...passes.carry_float8_as_uint8 import replace_float8_by_codes
from ...passes.context import PassContext
from ...passes.narrow_integers import narrow_decomposition
from .options import LoweringOptions
from .record import record


class Decompositions:
    """Decomposition graphs, recorded once for each operator signature, in the types that ``options`` allow."""

    def __init__(self, options: LoweringOptions | None = None) -> None:
        self._options = options or LoweringOptions()
        self._graphs: dict[Any, fx.GraphModule] = {}

    def exists(self, node: fx.Node) -> bool:
        """Whether the node's operator has a registered decomposition."""
        return isinstance(node.target, OpOverload) and node.target in decomposition_table

    def key(self, node: fx.Node) -> tuple[Any, str]:
        """What a decomposition depends on: the operator, the tensor types and every other argument."""
        positions = {source: index for index, source in enumerate(node.all_input_nodes)}

        def described(argument: Any) -> Any:
            if not isinstance(argument, fx.Node):
                return argument
            value = argument.meta["val"]
            return f"#{positions[argument]}:{value.dtype}{tuple(value.shape)}"

        return node.target, repr(map_aggregate((node.args, node.kwargs), described))

    def graph(self, node: fx.Node) -> fx.GraphModule:
        """A functional aten graph; its placeholders are the node's distinct tensor inputs in order of first use.

        Raises:
            LoweringError: the decomposition depends on values, or does not take these types and arguments.
        """
        key = self.key(node)
        if key not in self._graphs:
            self._graphs[key] = self._made(node)
        return self._graphs[key]

    def _made(self, node: fx.Node) -> fx.GraphModule:
        try:
            module = _trace(node, decomposition_table[node.target])  # pyright: ignore[reportArgumentType]
        except LoweringError:
            raise
        except Exception as error:
            # A kernel's own shape rule may be more lenient than its body.
            types = ", ".join(f"{one.meta['val'].dtype}{list(one.meta['val'].shape)}" for one in node.all_input_nodes)
            raise LoweringError(f"{node.target}: its decomposition does not take ({types}): {error}") from error
        if not self._options.float8:
            replace_float8_by_codes(module, PassContext(), self._options.e4m3_max)
        if not self._options.int64:
            narrow_decomposition(module)
        return module


def _trace(node: fx.Node, decomposition: Callable[..., Any]) -> fx.GraphModule:
    sources = node.all_input_nodes
    positions = {source: index for index, source in enumerate(sources)}

    def flat(*tensors: torch.Tensor) -> tuple[Any, ...]:
        arguments, keywords = map_aggregate(
            (node.args, node.kwargs), lambda one: tensors[positions[one]] if isinstance(one, fx.Node) else one
        )
        return tuple(tree_leaves(decomposition(*arguments, **keywords)))

    return record(
        flat, [torch.empty(one.meta["val"].shape, dtype=one.meta["val"].dtype, device="meta") for one in sources]
    )
