"""Weights and caches of a decode step that was compiled earlier, in the form that its programs take."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from ..errors import ArtifactError
from ..passes.weight_layout import WeightLayout
from .dtype_names import name_of
from .memory import aligned_empty
from .plan import InputBinding
from .tensor_source import TensorSource

_STATE = "state:"


def stored_name(name: str, carrier: torch.dtype, layout: WeightLayout | None) -> str:
    """What a weight is called in an image: one model tensor may be there in several forms."""
    form = f"{name}@{name_of(carrier)}"
    return form if layout is None else f"{form}@{layout.size}{layout.stride}{layout.offset}"


def tensors_to_store(bindings: Iterable[InputBinding], source: TensorSource) -> dict[str, Tensor]:
    """Every weight as the programs take it, and every cache that does not start as zeros."""
    stored: dict[str, Tensor] = {}
    for one in bindings:
        if one.kind == "weight":
            stored[stored_name(one.name, one.carrier, one.layout)] = source.carried(one.name, one.carrier, one.layout)
        elif one.kind == "kv":
            root = source.carried(one.name, one.carrier)
            if root.reshape(-1).view(torch.uint8).any():
                stored[_STATE + one.name] = root
    return stored


class StoredTensors:
    """The weights of an image, and caches of their own memory. Nobody else can move or change them."""

    def __init__(self, bindings: Iterable[InputBinding], image: Mapping[str, Tensor]):
        """Raises ArtifactError if the image lacks a weight, or holds one of another type or shape."""
        self._tensors: dict[str, Tensor] = {}
        for one in bindings:
            name = stored_name(one.name, one.carrier, one.layout)
            if one.kind == "weight":
                size = one.shape if one.layout is None else one.layout.size
                self._tensors[name] = _checked(image, name, one.carrier, size)
            elif one.kind == "kv" and name not in self._tensors:
                self._tensors[name] = aligned_empty(one.shape, one.carrier).zero_()
                if _STATE + one.name in image:
                    self._tensors[name].copy_(_checked(image, _STATE + one.name, one.carrier, one.shape))

    def carried(self, name: str, carrier: torch.dtype, layout: WeightLayout | None = None) -> Tensor:
        """A tensor as a program takes it."""
        return self._tensors[stored_name(name, carrier, layout)]

    def check_unmoved(self) -> None:
        """Nothing to check: no name of these tensors is handed out that could be bound to other memory."""

    def refresh_copies(self) -> None:
        """Nothing to refresh: the image holds what programs take."""


def _checked(image: Mapping[str, Tensor], name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> Tensor:
    tensor = image.get(name)
    if tensor is None or tensor.dtype != dtype or tuple(tensor.shape) != tuple(shape):
        found = "missing" if tensor is None else f"{tensor.dtype} {list(tensor.shape)}"
        raise ArtifactError(
            f"weight {name!r} of the stored image is {found}, the programs take {dtype} {list(shape)}: "
            "make the image again from the checkpoint"
        )
    return tensor
