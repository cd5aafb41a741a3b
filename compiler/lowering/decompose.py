"""Graphs of operators that have no rule of their own, traced from their registered decompositions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from ...passes.index_as_strided import index_as_strided
from ...passes.narrow_integers import narrow_decomposition
from .decompositions.other_packages import OTHER_PACKAGES
from .decompositions.table import OWN_DECOMPOSITIONS
from .narrow_floats import narrow_floats
from .options import LoweringOptions
from .record import record


class Decompositions:
    """Decomposition graphs, recorded once for each operator signature, in the types that ``options`` allow.

    Without options they are in the types that eager PyTorch computes in.
    """

    def __init__(self, options: LoweringOptions | None = None) -> None:
        self._options = options or LoweringOptions(float64=True)
        self._graphs: dict[Any, fx.GraphModule] = {}

    def exists(self, node: fx.Node) -> bool:
        """Whether the node's operator has a registered decomposition."""
        return isinstance(node.target, OpOverload) and _decomposition_of(node.target) is not None

    def key(self, node: fx.Node) -> tuple[Any, str]:
        """What a decomposition depends on, see ``signature``."""
        return signature(node)

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
        decomposition = _decomposition_of(node.target)
        assert decomposition is not None
        arguments = bound_arguments(node)

        def flat(*tensors: torch.Tensor) -> tuple[Any, ...]:
            args, kwargs = arguments(tensors)
            results = decomposition(*args, **kwargs)
            if results is NotImplemented:
                raise NotImplementedError("it is not written for these arguments")
            return tuple(tree_leaves(results))

        try:
            module = record(flat, tensor_types(node))
        except LoweringError:
            raise
        except Exception as error:
            # A kernel's own shape rule may be more lenient than its body.
            types = ", ".join(f"{one.meta['val'].dtype}{list(one.meta['val'].shape)}" for one in node.all_input_nodes)
            why = str(error) or type(error).__name__
            raise LoweringError(f"{node.target}: its decomposition does not take ({types}): {why}") from error
        return _restricted(module, self._options)


def _decomposition_of(target: Any) -> Callable[..., Any] | None:
    return OWN_DECOMPOSITIONS.get(target) or OTHER_PACKAGES.get(str(target)) or decomposition_table.get(target)


def signature(node: fx.Node) -> tuple[Any, str]:
    """What a decomposition depends on: the operator, the tensor types and every other argument."""
    positions = {source: index for index, source in enumerate(node.all_input_nodes)}

    def described(argument: Any) -> Any:
        if not isinstance(argument, fx.Node):
            return argument
        value = argument.meta["val"]
        return f"#{positions[argument]}:{value.dtype}{tuple(value.shape)}"

    return node.target, repr(map_aggregate((node.args, node.kwargs), described))


def bound_arguments(node: fx.Node) -> Callable[[Sequence[torch.Tensor]], Any]:
    """A function that puts tensors, one for each distinct tensor argument of a call, into ``(args, kwargs)``."""
    positions = {source: index for index, source in enumerate(node.all_input_nodes)}

    def bound(tensors: Sequence[torch.Tensor]) -> Any:
        def fill(argument: Any) -> Any:
            if isinstance(argument, fx.Node):
                return tensors[positions[argument]]
            if isinstance(argument, (list, tuple)):
                # A graph's lists cannot be changed, and some decompositions change theirs.
                return [fill(one) for one in argument] if isinstance(argument, list) else tuple(map(fill, argument))
            return argument

        return fill(node.args), {name: fill(one) for name, one in node.kwargs.items()}

    return bound


def tensor_types(node: fx.Node) -> list[torch.Tensor]:
    """Tensors without data, one for each distinct tensor argument of a call."""
    values = [source.meta["val"] for source in node.all_input_nodes]
    return [torch.empty(one.shape, dtype=one.dtype, device="meta") for one in values]


def record_for(function: Callable[..., Any], types: Sequence[torch.Tensor], options: LoweringOptions) -> fx.GraphModule:
    """The graph of a function, in the types that ``options`` allow; see ``record``."""
    return _restricted(record(function, types), options)


def _restricted(module: fx.GraphModule, options: LoweringOptions) -> fx.GraphModule:
    """The recorded graph itself, without views by strides and in the types that ``options`` allow."""
    index_as_strided(module, PassContext())
    if not options.float8:
        replace_float8_by_codes(module, PassContext(), options.e4m3_max)
    if not options.int64:
        narrow_decomposition(module)
    if not options.float64:
        narrow_floats(module)
    return module
