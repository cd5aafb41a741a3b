"""Plainer dtypes: float32 for other floats, int32 for other integers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import fx
from torch.fx.node import map_aggregate

from ...errors import GraphError
from ...passes.context import placeholders
from ...runtime.dtype_names import name_of
from .proposal import Proposal
from .retype import retype

_PLAIN = (torch.float32, torch.int32, torch.bool)


def plain_dtypes(module: fx.GraphModule, aliases: Mapping[int, int]) -> Iterator[Proposal]:
    """Every dtype of an input that is not plain, in all inputs and arguments at once."""
    inputs = placeholders(module)
    for dtype in sorted({node.meta["val"].dtype for node in inputs} - {*_PLAIN}, key=str):
        plain = torch.float32 if dtype.is_floating_point else torch.int32
        types = {
            node: torch.empty(node.meta["val"].shape, dtype=plain, device="meta")
            for node in inputs
            if node.meta["val"].dtype is dtype
        }

        def rewrite(
            node: fx.Node,
            args: tuple[Any, ...],
            kwargs: dict[str, Any],
            old: torch.dtype = dtype,
            new: torch.dtype = plain,
        ) -> tuple[tuple[Any, ...], dict[str, Any]]:
            changed: Any = map_aggregate((args, kwargs), lambda one: new if one is old else one)
            return changed[0], dict(changed[1])

        try:
            changed = retype(module, types, rewrite)
        except GraphError:
            continue
        yield Proposal(f"{name_of(dtype)} -> {name_of(plain)}", changed, aliases)
