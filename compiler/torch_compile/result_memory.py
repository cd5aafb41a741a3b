"""Where the results of a program lie: in the memory layout, and sharing the memory, of the traced graph's results.

AOTAutograd makes a result that is a view of an input anew from the input's memory, by the strides and the storage
offset of what the program returned. Results that are views of each other it takes as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor


@dataclass(frozen=True)
class StridedLayout:
    """Dtype, sizes, strides and storage offset of a tensor; the last two in elements."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @staticmethod
    def of(tensor: Tensor) -> StridedLayout:
        """The layout of a tensor, which may be without data."""
        return StridedLayout(tensor.dtype, tuple(tensor.shape), tuple(tensor.stride()), int(tensor.storage_offset()))

    @cached_property
    def end(self) -> int:
        """How many elements of a storage are needed."""
        if 0 in self.shape:
            return self.offset
        return self.offset + 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.stride, strict=True))

    @property
    def bytes(self) -> int:
        """The size of the smallest storage."""
        return self.end * self.dtype.itemsize

    def within(self, storage: torch.UntypedStorage) -> Tensor:
        """The tensor of this layout in a storage; it is not a view of another tensor."""
        return torch.empty(0, dtype=self.dtype).set_(storage, self.offset, self.shape, self.stride)

    def write(self, storage: torch.UntypedStorage, values: Tensor) -> Tensor:
        """``within`` after copying ``values`` there."""
        placed = self.within(storage)
        if self._may_repeat_elements:
            places = torch.arange(self.end).as_strided(self.shape, self.stride, self.offset)
            flat = torch.empty(0, dtype=self.dtype).set_(storage, 0, (self.end,), (1,))
            flat[places.reshape(-1)] = values.reshape(-1)
        else:
            placed.copy_(values)
        return placed

    @cached_property
    def _may_repeat_elements(self) -> bool:
        """Whether two elements may lie at one place, as after ``expand`` and ``unfold``."""
        reached = 0
        for stride, size in sorted(zip(self.stride, self.shape, strict=True)):
            if size != 1:
                if stride <= reached:
                    return True
                reached += (size - 1) * stride
        return False


class ResultMemory:
    """Lays out the results of a program as the results of a traced graph.

    Args:
        traced: the graph's results, without data; those that are views of each other share a storage.
    """

    def __init__(self, traced: Sequence[Tensor]):
        self._layouts = [StridedLayout.of(tensor) for tensor in traced]
        self._plain = [tensor.is_contiguous() and tensor.storage_offset() == 0 for tensor in traced]
        storages: dict[int, list[int]] = {}
        for position, tensor in enumerate(traced):
            storages.setdefault(tensor.untyped_storage()._cdata, []).append(position)
        self._groups = [
            group
            for group in storages.values()
            if len(group) > 1 or not all(self._plain[position] for position in group)
        ]

    def arrange(self, values: Sequence[Tensor]) -> list[Tensor]:
        """The results; contiguous ``values`` with a storage of their own are used as they are."""
        results = list(values)
        for group in self._groups:
            size = max(self._layouts[position].bytes for position in group)
            whole = next((one for one in group if self._plain[one] and self._layouts[one].bytes == size), None)
            if whole is None:
                storage = torch.UntypedStorage(size)
                for position in group:
                    results[position] = self._layouts[position].write(storage, values[position])
            else:
                storage = values[whole].untyped_storage()
                for position in group:
                    results[position] = self._layouts[position].within(storage)
        return results
