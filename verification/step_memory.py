"""What is at the places of a step while its regions run one after another in eager PyTorch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from ..compiler.regions.cut import Place, Region, StepInput, StepValue
from .observed import run_observed


class StepMemory:
    """The step's inputs, of which those that are written to become copies, and the values handed on between regions."""

    def __init__(self, inputs: Sequence[Tensor]):
        self._inputs = list(inputs)
        self._values: dict[str, Tensor] = {}
        self._copied: set[int] = set()

    def read(self, place: Place) -> Tensor:
        """The tensor at a place. That of an input, or of rows of it, is its memory, which later writes change."""
        if isinstance(place, StepValue):
            return self._values[place.name]
        tensor = self._inputs[place.index]
        return tensor if place.rows is None else tensor.narrow(0, place.rows.first, place.rows.count)

    def write(self, place: Place, tensor: Tensor) -> None:
        """Put a copy of ``tensor`` at a place: over the memory of an input, or rows of it."""
        if isinstance(place, StepValue):
            self._values[place.name] = tensor.clone()
            return
        if place.index not in self._copied:
            self._inputs[place.index] = self._inputs[place.index].clone()
            self._copied.add(place.index)
        self.read(place).copy_(tensor)

    def run(self, region: Region) -> None:
        """Run a region in eager PyTorch and put its results at their places."""
        results = run_observed(region.module, list(map(self.read, region.inputs)))
        # All first: a result may be a view of memory that another one is written to.
        for place, result in zip(region.outputs, [one.clone() for one in results], strict=True):
            self.write(place, result)


def carried_by_place(places: Sequence[Place], carried: Mapping[int, torch.dtype]) -> dict[Place, torch.dtype]:
    """The dtypes whose bits the inputs at some of ``places`` carry as integers, from those of the step's inputs."""
    inputs = [place for place in places if isinstance(place, StepInput)]
    return {place: carried[place.index] for place in inputs if place.index in carried}
