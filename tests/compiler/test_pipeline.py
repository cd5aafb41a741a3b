"""What passes, lowering and XLA make of a cache together: no step copies or converts one."""

from __future__ import annotations

import re

import pytest
import torch
from deepinfer_neuron.compiler.capture import capture
from deepinfer_neuron.compiler.pipeline import shape_graph
from deepinfer_neuron.compiler.targets.host import HostTarget
from deepinfer_neuron.runtime.devices.pjrt import host_device

ROWS, WIDTH = 512, 64


class TwoLayers(torch.nn.Module):
    """The second layer stores what it made of the first one's rows."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.register_buffer("cache", torch.zeros(ROWS, WIDTH, dtype=dtype))

    def forward(self, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        self.cache.index_put_((rows,), values)
        read = self.cache[rows - 1] + self.cache[rows]
        self.cache.index_put_((rows + 100,), read * 2)
        return self.cache[rows + 100] - read


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_no_step_copies_or_converts_a_cache(dtype: torch.dtype, batch: int) -> None:
    inputs = torch.ones(batch, WIDTH, dtype=dtype), torch.arange(1, batch + 1)
    graph = capture(TwoLayers(dtype), inputs)
    target = HostTarget()
    shaped = shape_graph(graph.module, target, "fast")
    program = host_device().load(target.compile(shaped.lowered)).optimized_hlo()
    whole = rf"\[{ROWS},{WIDTH}\]\S*"
    assert re.search(rf"{whole} parameter\(", program)
    assert not re.findall(rf"{whole} (?:copy|convert|bitcast-convert)\(", program)
