"""A graph in float64: what it would compute without the roundings of its types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._decomp import decomposition_table
from torch.fx.node import map_aggregate
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from ...compiler.lowering.call_arguments import is_custom

_NARROW = frozenset({torch.float32, torch.float16, torch.bfloat16})
_BIT_READERS = frozenset({torch.ops.aten.view.dtype, torch.ops.prims.view_of_dtype.default})


def run_wide(module: fx.GraphModule, inputs: Sequence[Tensor]) -> list[Tensor]:
    """The outputs of a functional graph whose float32, bfloat16 and float16 are float64 throughout.

    Float8 and integers stay what they are: rounding to them is what the graph means, and not an error. An operator
    that does not run in float64, such as one that reads the bits of its input, runs in its own types on its inputs
    rounded to them, and so does a kernel with such an operator inside.
    """
    with torch.no_grad():
        return tree_leaves(_Wide(module).run(*map(_widened, inputs)))


class _Wide(fx.Interpreter):
    def run_node(self, n: fx.Node) -> Any:
        if n.op == "get_attr":
            return _widened(super().run_node(n))
        if n.op != "call_function" or n.target not in _BIT_READERS:
            try:
                with _Float64():
                    return super().run_node(n)
            except Exception:
                # Whatever it is that float64 does not have, the operator's own types do.
                if n.op != "call_function":
                    raise
        return self._in_own_types(n)

    def _in_own_types(self, n: fx.Node) -> Any:
        def own(node: fx.Node) -> Any:
            return tree_map(_rounded, self.env[node], node.meta["val"])

        args, kwargs = map_aggregate((n.args, n.kwargs), lambda one: own(one) if isinstance(one, fx.Node) else one)
        return tree_map(_widened, self.call_function(n.target, args, kwargs))  # pyright: ignore[reportArgumentType]


class _Float64(TorchDispatchMode):
    """Runs operators on float64 instead of narrower types, kernels by the operators inside them."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map(_wide_argument, (args, kwargs or {}))
        if func in _BIT_READERS:
            raise NotImplementedError(f"{func} reads bits, and float64 has others")
        if is_custom(func) and func in decomposition_table:
            with self:
                return decomposition_table[func](*args, **kwargs)
        return func(*args, **kwargs)


def _wide_argument(argument: Any) -> Any:
    return torch.float64 if isinstance(argument, torch.dtype) and argument in _NARROW else _widened(argument)


def _widened(value: Any) -> Any:
    return value.double() if isinstance(value, Tensor) and value.dtype in _NARROW else value


def _rounded(value: Any, like: Any) -> Any:
    return value.to(like.dtype) if isinstance(value, Tensor) and like.dtype in _NARROW else value
