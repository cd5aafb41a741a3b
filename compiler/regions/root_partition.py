"""How the rows of each root are divided among the regions of all batch sizes.

Regions that touch common rows share one slice, so slices of a root never overlap. They are the same for all batch
sizes: two steps may be executing at once, and only what is one buffer is ordered by the device.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from .cut import CutGraph, Region, Rows, StepInput
from .root_slices import slice_roots
from .root_use import RootUse, root_use


@dataclass(frozen=True)
class RootPartition:
    """The uses of each updated input by the regions seen so far, by the input's name."""

    uses: Mapping[str, frozenset[RootUse]] = field(default_factory=dict)

    def joined(self, cut: CutGraph, names: Sequence[str]) -> RootPartition:
        """The partition for another step too, whose inputs have these names."""
        uses = dict(self.uses)
        updated = {place for region in cut.regions for place in region.outputs if isinstance(place, StepInput)}
        for region in cut.regions:
            for index, place in enumerate(region.inputs):
                if isinstance(place, StepInput) and place in updated:
                    name = names[place.index]
                    uses[name] = uses.get(name, frozenset()) | {root_use(region, index)}
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
        divided = slices.get(names[place.index], ()) if isinstance(place, StepInput) else ()
        if len(divided) > 1:
            use = root_use(region, index)
            chosen[index] = next(rows for rows in divided if rows.first <= use.first < rows.first + rows.count)
    return slice_roots(region, chosen)


def _divided(uses: Iterable[RootUse]) -> tuple[Rows, ...]:
    """The uses rounded to rows where a root can be cut, those that overlap made one."""
    step = math.lcm(*(use.step for use in uses))
    slices: list[tuple[int, int]] = []
    for use in sorted(uses, key=lambda use: use.first):
        first, end = use.first // step * step, min(-(-use.end // step) * step, use.rows)
        if slices and first < slices[-1][1]:
            slices[-1] = slices[-1][0], max(end, slices[-1][1])
        else:
            slices.append((first, end))
    return tuple(Rows(first, end - first) for first, end in slices)
