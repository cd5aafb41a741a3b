"""Where the elements of a view lie in the contiguous tensor that it is a view of."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

aten = torch.ops.aten

VIEWS = {
    *(aten.view.default, aten.select.int, aten.slice.Tensor, aten.squeeze.default, aten.squeeze.dim),
    *(aten.squeeze.dims, aten.unsqueeze.default, aten.permute.default, aten.transpose.int, aten.t.default),
    *(aten.expand.default, aten.as_strided.default, aten.alias.default, aten.detach.default, aten.diagonal.default),
}
"""Operators whose result is a view of their first argument."""

SPLITS = {aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int}
"""Operators whose results are several views of their first argument."""


@dataclass(frozen=True)
class StridedView:
    """Element ``i`` of a view lies at ``offset + sum(i * stride)`` of ``base``, a contiguous tensor."""

    base: fx.Node
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @classmethod
    def whole(cls, base: fx.Node) -> StridedView:
        """The view of a contiguous tensor by itself."""
        size = tuple(base.meta["val"].shape)
        return cls(base, size, tuple(math.prod(size[axis + 1 :]) for axis in range(len(size))), 0)

    @property
    def base_elements(self) -> int:
        """Number of elements of the base."""
        return self.base.meta["val"].numel()

    @property
    def is_whole(self) -> bool:
        """Whether the view holds every element of the base in order."""
        return self.runs() == StridedView.whole(self.base).runs()

    @property
    def reach(self) -> tuple[int, int]:
        """Position of the first element in the base, and the one after the last."""
        last = sum((size - 1) * stride for size, stride in zip(self.size, self.stride, strict=True))
        return self.offset, self.offset + last + 1

    def runs(self) -> tuple[int, tuple[tuple[int, int], ...]]:
        """Offset and (size, stride) of dimensions, those that continue one another merged: equal for equal elements."""
        merged: list[tuple[int, int]] = []
        for size, stride in zip(self.size, self.stride, strict=True):
            if size != 1:
                if merged and merged[-1][1] == size * stride:
                    size *= merged.pop()[0]
                merged.append((size, stride))
        return self.offset, tuple(merged)

    def through(self, node: fx.Node) -> StridedView:
        """The view that a node of ``VIEWS`` takes of this one."""
        return self.apply(node.target, *node.args[1:], **node.kwargs)

    def part(self, split: fx.Node, number: int) -> StridedView:
        """One of the views that a node of ``SPLITS`` takes of this one."""
        return self._described(split.target(self._stand_in(), *split.args[1:], **split.kwargs)[number])  # pyright: ignore

    def apply(self, operator: Any, *args: Any, **kwargs: Any) -> StridedView:
        """The view that an operator takes of this one."""
        return self._described(operator(self._stand_in(), *args, **kwargs))

    def _stand_in(self) -> torch.Tensor:
        flat = torch.empty(self.base_elements, device="meta")
        return flat.as_strided(self.size, self.stride, self.offset)

    def _described(self, tensor: torch.Tensor) -> StridedView:
        return StridedView(self.base, tuple(tensor.shape), tensor.stride(), int(tensor.storage_offset()))
