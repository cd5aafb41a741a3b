"""What a step is cut into: regions, and the places of the values that go in and out of them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import fx


@dataclass(frozen=True, order=True)
class RootSlice:
    """``count`` leading rows, from row ``first`` on, of the step's input at index ``root``."""

    root: int
    first: int
    count: int


Place = int | RootSlice | str
"""Where a value is between regions: an index of the step's inputs, rows of an updated one, or its name in the graph."""


@dataclass(frozen=True)
class Region:
    """One piece of a step.

    ``inputs`` and ``outputs`` say what the module's placeholders and results are; an output at the place of one of the
    step's inputs, or of rows of it, is its new version and aliases it. ``stage_names`` are those of the whole step, by
    the numbers that nodes are marked with.
    """

    name: str
    module: fx.GraphModule
    inputs: tuple[Place, ...]
    outputs: tuple[Place, ...]
    stage_names: tuple[str, ...] = ()

    @property
    def aliases(self) -> dict[int, int]:
        """Output index -> index of the input whose memory it takes over."""
        places = enumerate(self.outputs)
        return {index: self.inputs.index(place) for index, place in places if not isinstance(place, str)}


@dataclass(frozen=True)
class CutGraph:
    """The regions of a step in order, and the names of the values that it returns."""

    regions: tuple[Region, ...]
    results: tuple[str, ...]
