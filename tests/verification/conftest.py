"""A step small enough to compile in a second: a cache, a loop inside a kernel, a matrix product, two stages."""

import pytest
import torch
from deepinfer_neuron.model.kernels.hyper_connection import hyper_connection_expand, sinkhorn
from deepinfer_neuron.model.kernels.normalization import rms_norm
from deepinfer_neuron.passes.stage_boundary import stage_boundary
from deepinfer_neuron.runtime.slots import PaddingPolicy, SlotSpec
from fed_steps import trace_call
from kernel_fixtures import nki_standin  # noqa: F401
from torch import nn


class TwoHalves(nn.Module):
    """Two times: normalise, project, store a row, mix back into four streams."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(5)
        self.register_buffer("cache", torch.randn(12, 64, generator=generator).bfloat16())
        self.register_buffer("weight", (1 + torch.randn(64, generator=generator) / 10).bfloat16())
        self.register_buffer("projection", (torch.randn(64, 64, generator=generator) / 8).bfloat16())

    def forward(self, streams, rows, mixing):
        for half in range(2):
            comb = sinkhorn(mixing * (half + 1), 4, 1e-6)
            output = torch.mm(rms_norm(streams[:, half], self.weight, 1e-6), self.projection)
            self.cache[rows + half] = output - streams[:, 0]
            gathered = self.cache[rows.flip(0)] * 0.5
            streams = hyper_connection_expand(gathered, streams, comb[:, 0] + comb[:, 1], comb)
            (streams,) = stage_boundary(f"half {half}", streams)
        return streams.float().sum(1)


class TwoLayers(nn.Module):
    """Two times: store rows into a layer's part of one cache, and read them back."""

    decode_slots = (
        SlotSpec("x", torch.bfloat16, (64,)),
        SlotSpec("rows", torch.int64, index=True, padding=PaddingPolicy.fill(11)),
    )

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.register_buffer("cache", torch.randn(2, 12, 64, generator=generator).bfloat16())

    def forward(self, x, rows):
        for number in range(2):
            self.cache[number].index_put_((rows,), x * 0.5)
            x = x + self.cache[number][rows.flip(0)]
            (x,) = stage_boundary(f"layer {number}", x)
        return x.float()


@pytest.fixture(scope="module")
def layers():
    return TwoLayers()


@pytest.fixture(scope="module")
def layers_inputs():
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(8)).bfloat16()
    return {"x": x, "rows": torch.tensor([7, 2, 5])}


@pytest.fixture(scope="module")
def model():
    return TwoHalves()


@pytest.fixture(scope="module")
def inputs():
    generator = torch.Generator().manual_seed(6)
    return {
        "streams": torch.randn(3, 4, 64, generator=generator).bfloat16(),
        "rows": torch.tensor([7, 2, 5]),
        "mixing": torch.randn(3, 4, 4, generator=generator),
    }


@pytest.fixture(scope="module")
def step(model, inputs):
    return trace_call(model, inputs)
