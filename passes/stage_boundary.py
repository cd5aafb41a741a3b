"""The mark between two stages of a step: an identity that says where its graph may be cut."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._decomp import decomposition_table

NAMESPACE = "deepinfer"
_SCHEMA = "stage_boundary(str name, Tensor[] tensors) -> Tensor[]"
_LIBRARY = torch.library.Library(NAMESPACE, "FRAGMENT")


def stage_boundary(name: str, *tensors: Tensor) -> tuple[Tensor, ...]:
    """End the stage called ``name`` here and return copies of ``tensors``, what the next stage starts from.

    A compiled step is cut at its boundaries when it is compiled in mode "regions"; there, stages that compute the
    same share one program. A value that a later stage uses without being among ``tensors`` crosses as well; listing
    the main ones keeps their memory contiguous, which helps stages to be equal. Without gradients.
    """
    return tuple(STAGE_BOUNDARY(name, list(tensors)))


def _copy(name: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    return [tensor.clone() for tensor in tensors]


def _shapes(name: str, tensors: Sequence[Tensor]) -> list[Tensor]:
    return [torch.empty_like(tensor) for tensor in tensors]


_LIBRARY.define(_SCHEMA)
_LIBRARY.impl("stage_boundary", _copy, "CPU")
_LIBRARY.impl("stage_boundary", _shapes, "Meta")
STAGE_BOUNDARY: torch._ops.OpOverload = torch.ops.deepinfer.stage_boundary.default
# Where another compiler finds its meaning.
decomposition_table[STAGE_BOUNDARY] = _copy
