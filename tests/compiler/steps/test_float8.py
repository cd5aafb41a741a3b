"""float8 tensors given to and taken from compiled programs: the programs see bytes, the caller does not."""

from __future__ import annotations

import json

import pytest
import torch
from deepinfer_neuron import compile_decode
from deepinfer_neuron.errors import CaptureError
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from deepinfer_neuron.runtime.plan import DecodePlan
from deepinfer_neuron.runtime.slots import SlotSpec

E4M3, POWER = torch.float8_e4m3fn, torch.float8_e8m0fnu


class QuantizedStep(torch.nn.Module):
    decode_slots = (SlotSpec("x", torch.float32, (32,)),)

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.register_buffer("weight", torch.randn(16, 32, generator=generator).to(E4M3))
        self.register_buffer("scale", torch.tensor([[0.5], [4.0]]).to(POWER))
        self.register_buffer("cache", torch.zeros(8, 32).to(E4M3))

    def forward(self, x):
        self.cache[:4].copy_(self.cache[4:].clone())
        self.cache[4 : 4 + x.shape[0]] = x.to(E4M3)
        weight = self.weight.float() * self.scale.float().repeat_interleave(8, 0)
        return self.cache[4 : 4 + x.shape[0]].float() @ weight.t()


@pytest.mark.parametrize("rows", [1, 2])
def test_weights_scales_and_caches_stay_in_the_models_memory(rows):
    model, eager = QuantizedStep(), QuantizedStep()
    runner = compile_decode(model, [rows])
    carriers = {one.carrier for replay in runner.plan.replays for one in replay.bindings if one.kind != "slot"}
    assert carriers == {torch.uint8}
    for step in range(2):
        x = torch.randn(rows, 32, generator=torch.Generator().manual_seed(step)) * 300
        torch.testing.assert_close(runner(x=x), eager(x))
        assert torch.equal(model.cache.view(torch.uint8), eager.cache.view(torch.uint8))


@pytest.mark.parametrize("dtype", [E4M3, torch.float8_e5m2, POWER], ids=str)
def test_the_backend_takes_and_returns_float8(dtype):
    def convert(x, y):
        return x.to(dtype), y.float() * 2, y

    x = torch.cat([torch.linspace(-600, 600, 500), torch.tensor([0.0, float("inf"), 1e-3, 2.0**-9, 3 * 2.0**-11])])
    y = torch.arange(1, 101, dtype=torch.uint8).view(dtype)
    compiled = torch.compile(convert, backend="deepinfer_neuron", fullgraph=True)
    for actual, expected in zip(compiled(x, y), convert(x, y), strict=True):
        assert actual.dtype == expected.dtype
        assert torch.equal(actual.view(torch.uint8), expected.view(torch.uint8))


class ReturnsFloat8(QuantizedStep):
    def forward(self, x):
        return x.to(E4M3)


def test_a_step_that_returns_float8_is_refused():
    with pytest.raises(CaptureError, match=r"view\(torch.uint8\)"):
        compile_decode(ReturnsFloat8(), [2])


class TransposedScales(torch.nn.Module):
    """Scales stored column-major and padded, as kernels for other devices want them."""

    decode_slots = (SlotSpec("x", torch.float32, (32,)),)

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.register_buffer("weight", torch.randn(16, 32, generator=generator).to(E4M3))
        self.register_buffer("scale", torch.tensor([[0.5, 4.0], [1.0, 2.0], [9.0, 9.0]]).to(POWER))

    def forward(self, x):
        (x,) = stage_boundary("input", -x)
        scale = self.scale[:2].t().contiguous().float()
        return x @ (self.weight.float() * scale.repeat_interleave(8, 0).repeat_interleave(16, 1)).t()


@pytest.mark.parametrize("mode", ["whole", "regions"])
def test_a_scale_is_arranged_once_and_follows_its_source(mode):
    model = TransposedScales()
    runner = compile_decode(model, [2], mode=mode)
    x = torch.randn(2, 32, generator=torch.Generator().manual_seed(1))
    (layout,) = {one.layout for replay in runner.plan.replays for one in replay.bindings} - {None}
    assert layout.size == (2, 2)
    assert DecodePlan.from_json(json.loads(json.dumps(runner.plan.to_json()))) == runner.plan
    torch.testing.assert_close(runner(x=x), model(x))
    model.scale.copy_(torch.full((3, 2), 8.0))
    torch.testing.assert_close(runner(x=x), model(x))


class Codes(torch.nn.Module):
    decode_slots = (SlotSpec("codes", E4M3, (8,)), SlotSpec("x", torch.float32, (8,)))

    def forward(self, codes, x):
        return codes.float() * x


def test_a_float8_slot_is_given_as_bytes():
    model = Codes()
    runner = compile_decode(model, [4])
    codes, x = torch.arange(24, dtype=torch.uint8).view(3, 8).view(E4M3), torch.full((3, 8), 2.0)
    assert torch.equal(runner(codes=codes, x=x), model(codes, x))
