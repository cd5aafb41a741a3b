"""The replay plan of a step that was cut into regions: which memory feeds each of them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from ...passes.context import PassContext, placeholders
from ...runtime.plan import InputBinding, RegionPlan, ReplayPlan
from ..capture.capture import CapturedGraph, GraphInput
from ..regions.cut import CutGraph, Place, Region, RootSlice


def plan_step(
    batch_size: int, graph: CapturedGraph, context: PassContext, cut: CutGraph, artifacts: Sequence[str]
) -> ReplayPlan:
    """The plan to replay ``cut``, with the digest of each region's program in ``artifacts``.

    ``graph`` is what was captured, ``context`` what the passes left.
    """
    planner = _Planner(graph.inputs, context)
    return ReplayPlan(
        batch_size=batch_size,
        regions=tuple(map(planner.region, cut.regions, artifacts)),
        results=cut.results,
        result=graph.result,
    )


class _Planner:
    """Names what is at the places of one step."""

    def __init__(self, inputs: Sequence[GraphInput], context: PassContext):
        self._inputs = inputs
        self._context = context

    def region(self, region: Region, artifact: str) -> RegionPlan:
        return RegionPlan(
            name=region.name,
            artifact=artifact,
            inputs=tuple(map(self._binding, region.inputs, placeholders(region.module))),
            outputs=tuple(map(self._name, region.outputs)),
            aliases=region.aliases,
        )

    def _name(self, place: Place) -> str:
        if isinstance(place, str):
            return place
        return self._inputs[place.root if isinstance(place, RootSlice) else place].qualified_name

    def _binding(self, place: Place, node: fx.Node) -> InputBinding:
        if isinstance(place, str):
            value = node.meta["val"]
            return InputBinding("value", place, value.dtype, tuple(value.shape), value.dtype)
        index = place.root if isinstance(place, RootSlice) else place
        one = self._inputs[index]
        return InputBinding(
            kind="slot" if one.role == "slot" else "kv" if one.role == "kv" else "weight",
            name=one.qualified_name,
            dtype=one.dtype,
            shape=one.shape,
            carrier=self._context.carriers.get(index, one.dtype),
            layout=self._context.layouts.get(index),
            rows=(place.first, place.count) if isinstance(place, RootSlice) else None,
        )
