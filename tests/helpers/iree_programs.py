"""Compiles graphs with IREE and runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from deepinfer_neuron.compiler.lowering.lower import lower_graph
from deepinfer_neuron.compiler.targets.iree import iree_target
from deepinfer_neuron.runtime.artifacts import Artifact
from deepinfer_neuron.runtime.devices.iree import iree_device
from host_programs import aligned, trace


def compile_function(
    function: Callable[..., Any], *inputs: torch.Tensor, aliases: Mapping[int, int] | None = None
) -> Artifact:
    """The program of a Python function."""
    target = iree_target()
    return target.compile(lower_graph(trace(function, *inputs), target.lowering_options("fast"), aliases))


def run_function(function: Callable[..., Any], *inputs: torch.Tensor) -> list[torch.Tensor]:
    """The results of a Python function's program on copies of the inputs."""
    device = iree_device()
    executable = device.load(compile_function(function, *inputs))
    return [device.to_torch(one) for one in executable.execute([device.buffer(aligned(one)) for one in inputs])]
