"""The replay plan of a step that was cut into regions: which memory feeds each of them."""

from __future__ import annotations

from collections.abc import Sequence

from torch import fx

from ...passes.context import PassContext, placeholders
from ...runtime.plan import InputBinding, RegionPlan, ReplayPlan
from ..capture.capture import CapturedGraph, GraphInput
from ..regions.cut import CutGraph, Place, Region, StepValue


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
        return place.name if isinstance(place, StepValue) else self._inputs[place.index].qualified_name

    def _binding(self, place: Place, node: fx.Node) -> InputBinding:
        if isinstance(place, StepValue):
            value = node.meta["val"]
            return InputBinding("value", place.name, value.dtype, tuple(value.shape), value.dtype)
        one = self._inputs[place.index]
        return InputBinding(
            kind="slot" if one.role == "slot" else "kv" if one.role == "kv" else "weight",
            name=one.qualified_name,
            dtype=one.dtype,
            shape=one.shape,
            carrier=self._context.carriers.get(place.index, one.dtype),
            layout=self._context.layouts.get(place.index),
            rows=None if place.rows is None else (place.rows.first, place.rows.count),
        )
