"""How the rows of each root are divided among the regions of all batch sizes.

Regions that touch common rows share one slice, so slices of a root never overlap. They are the same for all batch
sizes: two steps may be executing at once, and only what is one buffer is ordered by the device.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .cut import CutGraph, Region, RootSlice
from .root_slices import slice_roots
from .root_use import RootUse, root_use

Rows = tuple[int, int]
"""First row, and the one after the last."""


@dataclass(frozen=True)
class RootPartition:
    """The uses of each updated input by the regions seen so far, by the input's name."""

    uses: Mapping[str, frozenset[RootUse]] = field(default_factory=dict)

    def joined(self, cut: CutGraph, names: Sequence[str]) -> RootPartition:
        """The partition for another step too, whose inputs have these names."""
        uses = dict(self.uses)
        updated = {place for region in cut.regions for place in region.outputs if isinstance(place, int)}
        for region in cut.regions:
            for index, place in enumerate(region.inputs):
                if isinstance(place, int) and place in updated:
                    uses[names[place]] = uses.get(names[place], frozenset()) | {root_use(region, index)}
        return RootPartition(uses)

    def slices(self) -> dict[str, tuple[Rows, ...]]:
        """The slices of each input in order; one alone stands for the whole input."""
        return {name: _divided(uses) for name, uses in self.uses.items()}

    def applied(self, cut: CutGraph, names: Sequence[str]) -> CutGraph:
        """``cut`` with regions that take slices, of a step that was joined before."""
        slices = self.slices()
        return replace(cut, regions=tuple(_sliced(region, names, slices) for region in cut.regions))


def _sliced(region: Region, names: Sequence[str], slices: Mapping[str, tuple[Rows, ...]]) -> Region:
    chosen = {}
    for index, place in enumerate(region.inputs):
        rows = slices.get(names[place], ()) if isinstance(place, int) else ()
        if isinstance(place, int) and len(rows) > 1:
            use = root_use(region, index)
            first, end = next(one for one in rows if one[0] <= use.first < one[1])
            chosen[index] = RootSlice(place, first, end - first)
    return slice_roots(region, chosen)


def _divided(uses: Iterable[RootUse]) -> tuple[Rows, ...]:
    """The uses rounded to rows where a root can be cut, those that overlap made one."""
    step = math.lcm(*(use.step for use in uses))
    slices: list[Rows] = []
    for use in sorted(uses, key=lambda use: use.first):
        first, end = use.first // step * step, min(-(-use.end // step) * step, use.rows)
        if slices and first < slices[-1][1]:
            slices[-1] = slices[-1][0], max(end, slices[-1][1])
        else:
            slices.append((first, end))
    return tuple(slices)
