"""Programs shaped for a device with 32-bit integers and without a sort, run on the host."""

from __future__ import annotations

import re

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.steps.pass_captured import pass_captured
from deepinfer_neuron.compiler.targets import table
from deepinfer_neuron.errors import CaptureError, GraphError
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import target_numerics
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.runtime.slots import ZERO, PaddingPolicy, SlotSpec
from device_shapes import HostInDeviceShape

GEOMETRY = CacheGeometry.for_requests(max_context=96, max_requests=4, block_tokens=8)
WIDE_TENSOR = re.compile(r"tensor<(?:\d+x)*u?i64>")


@pytest.fixture
def device_shape(monkeypatch):
    monkeypatch.setitem(table.TARGETS, "trn2", HostInDeviceShape)


@pytest.fixture
def pool(small):
    checkpoint, numerics = open_checkpoint(small), target_numerics("trn2")
    return RequestPool(load_model(checkpoint, GEOMETRY, numerics), EngramLookup(checkpoint, numerics))


@pytest.mark.slow
def test_the_decode_step_gives_the_same_bits(pool, device_shape):
    requests = [pool.add(list(range(5, 5 + length)))[0] for length in (40, 17)]
    inputs = pool.step_inputs(requests, [60, 61])
    before = pool.model.cache.snapshot()
    logits, caches = {}, {}
    for target in ("host", "trn2"):
        pool.model.cache.restore(before)
        runner = compile_decode(pool.model, [2], target=target, numerics="exact", mode="regions")
        logits[target] = runner(**inputs).clone()
        caches[target] = pool.model.cache.snapshot()
    assert torch.equal(logits["trn2"], logits["host"])
    for name, root in caches["host"].items():
        assert torch.equal(caches["trn2"][name], root)
        assert not torch.equal(before[name], root)


def test_the_decode_step_has_no_int64_and_no_sort(pool):
    slots = pool.model.decode_slots
    examples = {spec.name: torch.full((2, *spec.row_shape), spec.pad_value, dtype=spec.dtype) for spec in slots}
    target = HostInDeviceShape()
    passed = pass_captured(capture(pool.model, examples), target, slots)
    lowered = lower_graph(passed.module, target.lowering_options("fast"), passed.context.aliases)
    assert WIDE_TENSOR.findall(lowered.text()) == []
    assert "stablehlo.sort" not in lowered.text()


class Lookup(torch.nn.Module):
    """Rows of a table by int64 slots and an int64 buffer."""

    def __init__(self, largest: int | None = 9, scale: int = 1, result: torch.dtype = torch.int32):
        super().__init__()
        self.decode_slots = (
            SlotSpec("token", torch.int64, (), ZERO, index=True, maximum=largest),
            SlotSpec("history", torch.int64, (3,), PaddingPolicy.fill(9), index=True, maximum=9),
        )
        self.scale = scale
        self.result = result
        self.register_buffer("table", torch.randn(10, 4, generator=torch.Generator().manual_seed(0)))
        self.register_buffer("order", torch.randperm(10, generator=torch.Generator().manual_seed(0)))

    def forward(self, token, history):
        values = self.table[self.order[token]] + self.table[(history * self.scale + 1) % 10].sum(1)
        return values, values.argmax(1).to(self.result)


def test_int64_slots_and_buffers_are_converted_for_the_program(device_shape):
    model = Lookup()
    runner = compile_decode(model, [4], target="trn2", numerics="exact")
    (replay,) = runner.plan.replays
    assert {binding.name: binding.carrier for binding in replay.bindings} == {
        "token": torch.int32, "history": torch.int32, "order": torch.int32, "table": torch.float32
    }  # fmt: skip
    for live in (4, 1):
        inputs = {"token": torch.arange(live) + 3, "history": torch.arange(3 * live).view(live, 3) % 10}
        for result, expected in zip(runner(**inputs), model(**inputs), strict=True):
            assert torch.equal(result, expected)


REFUSED = {
    "an unbounded slot": (Lookup(largest=None), GraphError, "at tests/engine/test_device_shapes.py.*needs int64"),
    "a product beyond int32": (Lookup(scale=2**30), GraphError, "needs int64"),
    "an int64 result": (Lookup(result=torch.int64), CaptureError, r"returns int64 values \(results \[1\]\)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_32_bits_cannot_hold_is_refused(device_shape, case):
    model, error, message = REFUSED[case]
    with pytest.raises(error, match=message):
        compile_decode(model, [2], target="trn2")
