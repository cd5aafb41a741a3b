"""What passes, lowering and XLA make of a cache together: no step copies or converts one."""

from __future__ import annotations

import re

import pytest
import torch
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.steps.pipeline import shape_graph
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


class LayersOfOneRoot(torch.nn.Module):
    """Every layer stores into and reads from its own view of one root, each taken in another way."""

    def __init__(self, dtype: torch.dtype):
        super().__init__()
        self.register_buffer("cache", torch.zeros(4, ROWS, WIDTH, dtype=dtype))

    def forward(self, values: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        flat = self.cache.view(-1, WIDTH)
        layers = self.cache[0], self.cache.unbind(0)[1], flat[2 * ROWS : 3 * ROWS], flat.split(ROWS)[3]
        for layer in layers:
            layer.index_put_((rows,), values.to(layer.dtype))
            values = values + layer[rows - 1].to(values.dtype)
        return values


def optimized_hlo(model: torch.nn.Module, *inputs: torch.Tensor) -> str:
    graph = capture(model, inputs)
    target = HostTarget()
    shaped = shape_graph(graph.module, target, "fast")
    return host_device().load(target.compile(shaped.lowered)).optimized_hlo()


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
def test_no_step_copies_or_converts_a_cache(dtype: torch.dtype, batch: int) -> None:
    program = optimized_hlo(TwoLayers(dtype), torch.ones(batch, WIDTH, dtype=dtype), torch.arange(1, batch + 1))
    whole = rf"\[{ROWS},{WIDTH}\]\S*"
    assert re.search(rf"{whole} parameter\(", program)
    assert not re.findall(rf"{whole} (?:copy|convert|bitcast-convert)\(", program)


@pytest.mark.parametrize("batch", [1, 3])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float8_e4m3fn], ids=str)
def test_stores_into_views_of_a_root_copy_neither_root_nor_layer(dtype: torch.dtype, batch: int) -> None:
    program = optimized_hlo(LayersOfOneRoot(dtype), torch.ones(batch, WIDTH), torch.arange(1, batch + 1))
    large = rf"\[(?:4,{ROWS},{WIDTH}|{4 * ROWS},{WIDTH}|1,{ROWS},{WIDTH}|{ROWS},{WIDTH})\]\S*"
    made = re.findall(rf"^ *(?:ROOT )?%?(\S+) = \w+{large} ([\w-]+)\(", program, re.MULTILINE)
    assert {operation for _, operation in made} <= {"parameter", "bitcast", "fusion", "scatter"}
    assert [name for name, operation in made if operation == "fusion" and "scatter" not in name] == []
    assert sum(operation == "fusion" for _, operation in made) == 4
