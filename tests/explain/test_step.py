"""What a compiled runner knows, as data."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.explain.step import CacheUse, explain_runner
from deepinfer_neuron.passes.pipeline import PASSES
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from deepinfer_neuron.runtime.slots import SlotSpec


class Layers(torch.nn.Module):
    """Two equal layers that add to a cache each, then a weight; the first stage is used by both."""

    decode_slots = (SlotSpec("x", torch.float32, (4,)),)

    def __init__(self):
        super().__init__()
        for name in ("first", "second"):
            self.register_buffer(name, torch.zeros(16, 4))
        self.weight = torch.nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x):
        (start,) = stage_boundary("embed", x + 1)
        (hidden,) = stage_boundary("layers.0.sum", start * self._add(self.first, start))
        (hidden,) = stage_boundary("layers.1.sum", hidden * self._add(self.second, start))
        return hidden * self.weight

    def _add(self, cache, value):
        cache.add_(value.sum(0))
        return cache.sum(0)


@pytest.fixture(scope="module")
def steps():
    return explain_runner(compile_decode(Layers(), [2, 1], mode="regions"))


def test_every_batch_size_is_explained_smallest_first(steps):
    assert [step.batch_size for step in steps] == [1, 2]
    for step in steps:
        assert [region.name for region in step.regions] == ["embed", "layers.0.sum", "layers.1.sum", "end"]
        assert [record.name for record in step.passes] == [entry.name for entry in PASSES]
        assert sum(region.nodes for region in step.regions) >= step.nodes
        assert step.mode == "regions"


def test_programs_are_numbered_by_first_use_and_counted(steps):
    for step in steps:
        assert [program.number for program in step.programs] == list(range(1, len(step.programs) + 1))
        assert step.regions[0].program == 1
        used = [region.program for region in step.regions]
        assert [program.uses for program in step.programs] == [used.count(one.number) for one in step.programs]
        assert all(program.bytes > 0 and program.seconds > 0 for program in step.programs)


def test_handoffs_say_who_gives_how_many_bytes_to_whom(steps):
    one, two = steps
    assert sorted((one.maker, one.user) for one in two.handoffs) == [(0, 1), (0, 2), (1, 2), (2, 3)]
    assert {handoff.type for handoff in two.handoffs} == {"float32[2, 4]"}
    assert {handoff.bytes for handoff in two.handoffs} == {32}
    assert {handoff.bytes for handoff in one.handoffs} == {16}
    assert [region.outputs for region in two.regions] == [1, 1, 1, 1]
    assert two.regions[0].slots == 1
    assert two.regions[3].weights == 1


def test_caches_have_a_size_and_users(steps):
    for step in steps:
        assert step.caches == {"first": 256, "second": 256}
        assert step.cache_uses == (CacheUse("first", 1, updates=True), CacheUse("second", 2, updates=True))
