"""Refuses graphs in which the size of a tensor, or a Python number, depends on the values of tensors."""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols
from torch.utils._pytree import tree_leaves

from ...errors import CaptureError
from ...passes.locations import source_line
from ..lowering.support import advice_for


def refuse_data_dependent_sizes(module: fx.GraphModule) -> None:
    """Check a graph that AOTAutograd traced.

    Raises:
        CaptureError: one line for each operator that makes such a size: its name, its line in the model and what to
            write instead.
    """
    known: set[Any] = set()
    problems: dict[str, None] = {}
    for node in module.graph.nodes:
        symbols = _unknown_sizes(node.meta.get("val"))
        if node.op == "call_function" and symbols - known:
            line = source_line(node)
            where = f" at {line}" if line else ""
            problems[f"{node.target}{where}: {advice_for(node.target, _DEFAULT_ADVICE)}"] = None
        known |= symbols
    if problems:
        raise CaptureError(
            "sizes of a compiled program cannot depend on the values of tensors:\n"
            + "\n".join(f"  {problem}" for problem in problems)
        )


_DEFAULT_ADVICE = "its shape depends on data: keep all positions and a mask, and use torch.where"


def _unknown_sizes(value: Any) -> set[Any]:
    kinds = (torch.Tensor, torch.SymInt, torch.SymFloat, torch.SymBool)
    return {symbol for one in tree_leaves(value) if isinstance(one, kinds) for symbol in free_unbacked_symbols(one)}
