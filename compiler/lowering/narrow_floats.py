"""Write float32 where a target without float64 computes in float32 anyway."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx
from torch.fx.node import map_aggregate


def narrow_floats(module: fx.GraphModule) -> None:
    """Retype the float64 values of a decomposition, in place.

    Its program computes the same. What is cut out of it has no float64 inputs and results, which such a target would
    refuse.
    """
    for node in module.graph.nodes:
        changed: Any = map_aggregate((node.args, node.kwargs), _narrow_dtype)
        node.args, node.kwargs = changed[0], dict(changed[1])
        if node.op == "get_attr" and isinstance(getattr(module, str(node.target)), Tensor):
            setattr(module, str(node.target), _narrow_tensor(getattr(module, str(node.target))))
        if "val" in node.meta:
            node.meta["val"] = map_aggregate(node.meta["val"], _narrow_tensor)


def _narrow_dtype(argument: Any) -> Any:
    return torch.float32 if argument is torch.float64 else argument


def _narrow_tensor(value: Any) -> Any:
    return value.float() if isinstance(value, Tensor) and value.dtype is torch.float64 else value
