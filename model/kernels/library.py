"""Definition of a kernel: a ``torch.library`` operator with an eager body, a shape rule and a decomposition.

``torch.library.custom_op`` imports Dynamo when called; the lower-level ``Library`` used here does not, which keeps
the start of a process that only replays programs short.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch._decomp import decomposition_table

NAMESPACE = "deepinfer"
_LIBRARY = torch.library.Library(NAMESPACE, "DEF")


def kernel(
    schema: str, shape: Callable[..., Any], decomposition: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], torch._ops.OpOverload]:
    """Turn a function into the operator ``deepinfer::<schema>`` and return its only overload.

    The decorated function is the eager body. ``shape`` maps the arguments to empty results and is what capture runs.
    ``decomposition`` has the body's meaning in static-shape aten operators; leave it out when the body already is
    that. Compilers find it in ``torch._decomp.decomposition_table``.
    """
    name = schema.partition("(")[0]

    def define(body: Callable[..., Any]) -> torch._ops.OpOverload:
        _LIBRARY.define(schema)
        _LIBRARY.impl(name, body, "CPU")
        _LIBRARY.impl(name, shape, "Meta")
        overload = getattr(getattr(torch.ops, NAMESPACE), name).default
        decomposition_table[overload] = decomposition or body
        return overload

    return define
