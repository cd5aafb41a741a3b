"""Another arrangement of a weight's elements, made once when it is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class WeightLayout:
    """The row-major tensor of ``size`` whose element ``i`` is the weight's element ``offset + sum(i * stride)``.

    ``stride`` and ``offset`` count elements of the weight in row-major order, whatever its own strides are.
    """

    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    def arrange(self, weight: Tensor) -> Tensor:
        """The elements of ``weight`` in this layout; a copy."""
        return weight.reshape(-1).as_strided(self.size, self.stride, self.offset).clone().contiguous()
