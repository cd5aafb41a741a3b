"""Run a graph in eager PyTorch and show every call to an observer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch.utils._pytree import tree_leaves

Observer = Callable[[fx.Node, Mapping[fx.Node, Any], Any], None]
"""Called with a call node, the values of the nodes before it, and its result."""


def run_observed(module: fx.GraphModule, inputs: Sequence[Tensor], observe: Observer | None = None) -> list[Tensor]:
    """The outputs of a functional graph, node by node in eager PyTorch, without gradients."""
    with torch.no_grad():
        return tree_leaves(_Observed(module, observe).run(*inputs))


class _Observed(fx.Interpreter):
    def __init__(self, module: fx.GraphModule, observe: Observer | None) -> None:
        super().__init__(module)
        self._observe = observe

    def run_node(self, n: fx.Node) -> Any:
        result = super().run_node(n)
        if self._observe is not None and n.op == "call_function":
            self._observe(n, self.env, result)
        return result
