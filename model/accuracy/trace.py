"""Collects the intermediate values of a reference run that golden files keep."""

from __future__ import annotations

import torch
from torch import Tensor

KEPT = ("ffn.expand", "ffn.mix.pre", "ffn.expert_ids", "attn.selection", "attn.candidates")


class Trace:
    """An observer that keeps the last value of each backbone layer's kept names."""

    def __init__(self) -> None:
        self._values: dict[str, Tensor] = {}

    def __call__(self, name: str, value: Tensor, /) -> None:
        if name.endswith(KEPT):
            self._values[name] = value

    def layer(self, layer: int, name: str) -> Tensor:
        """The value that ``layers.{layer}.{name}`` had in the last forward."""
        return self._values[f"layers.{layer}.{name}"]

    def layers(self, count: int, name: str) -> Tensor:
        """That value of the first ``count`` layers: [count, S, ...]."""
        return torch.stack([self.layer(layer, name) for layer in range(count)])
