"""What a runner asks of whoever holds the weights and caches."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor

from ..passes.weight_layout import WeightLayout


class TensorSource(Protocol):
    """Where a runner finds the tensors that its plan names."""

    def carried(self, name: str, carrier: torch.dtype, layout: WeightLayout | None = None) -> Tensor:
        """A tensor as a program takes it; always the same memory."""
        ...

    def check_unmoved(self) -> None:
        """Raise InputError if a tensor is no longer in the memory that ``carried`` returned."""
        ...

    def refresh_copies(self) -> None:
        """Bring up to date what ``carried`` had to copy; raises InputError if a new value does not fit."""
        ...
