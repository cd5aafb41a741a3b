from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from deepinfer_neuron.compiler.lowering.lower import LoweredModule, lower_graph
from deepinfer_neuron.runtime.artifacts import Artifact
from deepinfer_neuron.runtime.devices.nrt.device import NrtDevice
from deepinfer_neuron.runtime.devices.nrt.runtime import NrtRuntime, open_runtime
from host_programs import trace
from nrt_standin import Standin, StandinTarget


@pytest.fixture
def runtime(standin: Standin) -> NrtRuntime:
    return open_runtime(standin.path)


@pytest.fixture
def device(runtime: NrtRuntime) -> NrtDevice:
    return NrtDevice(runtime)


@pytest.fixture(scope="session")
def module() -> LoweredModule:
    """``cache + step`` in the cache's memory, and ``cache * step``; float32, 3 rows of 4."""
    graph = trace(lambda cache, step: (cache * step, cache + step), torch.zeros(3, 4), torch.zeros(3, 4))
    return lower_graph(graph, StandinTarget().lowering_options("fast"), aliases={1: 0})


@pytest.fixture
def artifact(module: LoweredModule) -> Artifact:
    return StandinTarget().compile(module)


@pytest.fixture
def filled() -> Callable[..., torch.Tensor]:
    return lambda value, *shape: torch.full(shape or (3, 4), float(value))
