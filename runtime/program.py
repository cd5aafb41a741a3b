"""The compiled regions of one batch size with everything they read bound to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..passes.weight_layout import WeightLayout
from .devices.base import Buffer, Device, Executable
from .plan import BindingKind, InputBinding, RegionPlan, ReplayPlan
from .structure import builder


@dataclass(frozen=True)
class BufferKey:
    """What feeds a program input: equal for equal buffers.

    Attributes:
        rows: of a cache, the leading rows that a slice takes; None for all.
        carrier, layout: of a weight or slot, as in ``InputBinding``.
    """

    kind: BindingKind
    name: str
    rows: tuple[int, int] | None = None
    carrier: torch.dtype | None = None
    layout: WeightLayout | None = None


@dataclass(frozen=True)
class _BoundRegion:
    """Places of one region's arguments and outputs among the buffers of a step."""

    executable: Executable
    arguments: tuple[int, ...]
    outputs: tuple[int, ...]
    finished: tuple[int, ...]


class BoundStep:
    """The regions of a step in order, their arguments, and where their outputs go.

    A step works on one list of buffers: the caches or slices of them, then weights and slots, then the values that
    regions hand on. Everything is found there by number, so a region costs one indexing and one call. A value's buffer
    is made by the device when a region returns it and dropped after the last region that reads it; the device keeps it
    for as long as an execution needs it. Caches are shared by the steps of all batch sizes: each region that updates
    one takes its current buffer and leaves a new one over the same memory.
    """

    def __init__(
        self,
        replay: ReplayPlan,
        executables: Mapping[str, Executable],
        device: Device,
        fixed: Mapping[BufferKey, Buffer],
        roots: Sequence[BufferKey],
    ):
        """``executables`` by artifact digest; ``fixed``: buffers of weights and slots; ``roots``: keys of caches."""
        self.size = replay.batch_size
        self.executables = [executables[region.artifact].at_place() for region in replay.regions]
        self._to_torch = device.to_torch
        self._build = builder(replay.result)
        self._root_count = len(roots)
        used = [buffer_key(binding) for binding in replay.bindings if binding.kind != "kv"]
        keys: list[BufferKey] = [*roots, *used, *_values(replay)]
        places = {key: place for place, key in enumerate(keys)}
        self._fixed = [fixed.get(key) for key in keys[self._root_count :]]
        self.slots = [fixed[key] for key in used if key.kind == "slot"]
        self._results = tuple(places[BufferKey("value", name)] for name in replay.results)
        last_use = {place: number for number, region in enumerate(replay.regions) for place in _reads(region, places)}
        self._regions = [
            _BoundRegion(
                executable=executable,
                arguments=tuple(places[buffer_key(binding)] for binding in region.inputs),
                outputs=tuple(places[key] for key in _output_keys(region)),
                finished=tuple(
                    place
                    for place in dict.fromkeys(_reads(region, places))
                    if last_use[place] == number and place not in self._results
                ),
            )
            for number, (region, executable) in enumerate(zip(replay.regions, self.executables, strict=True))
        ]

    def execute(self, roots: list[Buffer]) -> list[Buffer]:
        """Run the regions, replace ``roots`` by their updated selves, and return the step's results."""
        buffers = [*roots, *self._fixed]
        for region in self._regions:
            outputs = region.executable.execute([buffers[place] for place in region.arguments])
            for place, output in zip(region.outputs, outputs, strict=True):
                buffers[place] = output
            for place in region.finished:
                buffers[place] = None
        roots[:] = buffers[: self._root_count]
        return [buffers[place] for place in self._results]

    def result(self, outputs: Sequence[Buffer], live: int) -> Any:
        """The caller's structure over the ``live`` leading rows of each output."""
        tensors: list[Tensor] = [self._to_torch(output) for output in outputs]
        if live != self.size:
            tensors = [tensor[:live] for tensor in tensors]
        return self._build(tensors)


def buffer_key(binding: InputBinding) -> BufferKey:
    """The key of what feeds a program input."""
    if binding.kind == "value":
        return BufferKey(binding.kind, binding.name)
    if binding.kind == "kv":
        return BufferKey(binding.kind, binding.name, rows=binding.rows)
    return BufferKey(binding.kind, binding.name, carrier=binding.carrier, layout=binding.layout)


def _output_keys(region: RegionPlan) -> list[BufferKey]:
    updated = {output: region.inputs[source] for output, source in region.aliases.items()}
    return [
        buffer_key(updated[index]) if index in updated else BufferKey("value", name)
        for index, name in enumerate(region.outputs)
    ]


def _values(replay: ReplayPlan) -> list[BufferKey]:
    keys = [key for region in replay.regions for key in _output_keys(region)]
    return [key for key in keys if key.kind == "value"]


def _reads(region: RegionPlan, places: Mapping[BufferKey, int]) -> list[int]:
    """Places of the values that a region reads."""
    return [places[buffer_key(binding)] for binding in region.inputs if binding.kind == "value"]
