"""What is at the places of a step while its regions run one after another in eager PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..compiler.regions.cut import Place, RootSlice


class StepMemory:
    """The step's inputs, of which those that are written to become copies, and the values handed on between regions."""

    def __init__(self, inputs: Sequence[Tensor]):
        self._values: dict[int | str, Tensor] = dict(enumerate(inputs))
        self._copied: set[int] = set()

    def read(self, place: Place) -> Tensor:
        """The tensor at a place. That of an input, or of rows of it, is its memory, which later writes change."""
        if isinstance(place, RootSlice):
            return self._values[place.root].narrow(0, place.first, place.count)
        return self._values[place]

    def write(self, place: Place, tensor: Tensor) -> None:
        """Put a copy of ``tensor`` at a place: over the memory of an input, or rows of it."""
        if isinstance(place, str):
            self._values[place] = tensor.clone()
            return
        root = root_of(place)
        if root not in self._copied:
            self._values[root] = self._values[root].clone()
            self._copied.add(root)
        self.read(place).copy_(tensor)


def root_of(place: Place) -> int:
    """The index of the input that a place is, or is rows of; -1 for a value that is none."""
    if isinstance(place, str):
        return -1
    return place.root if isinstance(place, RootSlice) else place


def carried_by_place(places: Sequence[Place], carried: Mapping[int, torch.dtype]) -> dict[Place, torch.dtype]:
    """The dtypes whose bits the inputs at some of ``places`` carry as integers, from those of the step's inputs."""
    return {place: carried[root_of(place)] for place in places if root_of(place) in carried}
