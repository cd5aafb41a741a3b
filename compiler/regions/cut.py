"""What a step is cut into: regions, and the places of the values that go in and out of them."""

from __future__ import annotations

from dataclasses import dataclass

from torch import fx


@dataclass(frozen=True)
class Rows:
    """``count`` leading rows of a tensor, from row ``first`` on."""

    first: int
    count: int


@dataclass(frozen=True)
class StepInput:
    """The step's input of that index, or with ``rows`` these of an updated one."""

    index: int
    rows: Rows | None = None


@dataclass(frozen=True)
class StepValue:
    """What a region computes and hands on, or returns, by its name in the graph."""

    name: str


Place = StepInput | StepValue
"""Where a value is between regions."""


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
        return {index: self.inputs.index(place) for index, place in places if isinstance(place, StepInput)}


@dataclass(frozen=True)
class CutGraph:
    """The regions of a step in order, and the names of the values that it returns."""

    regions: tuple[Region, ...]
    results: tuple[str, ...]
