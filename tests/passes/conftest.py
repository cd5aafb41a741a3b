from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from deepinfer_neuron.compiler.capture.capture import GraphInput, capture
from deepinfer_neuron.passes.carrier import carry
from deepinfer_neuron.passes.context import PassContext
from torch import fx


def bits(tensor: torch.Tensor) -> torch.Tensor:
    tensor = tensor.detach().contiguous()
    return tensor if tensor.dim() == 0 else tensor.view(torch.uint8)


def equal_bits(first: torch.Tensor, second: torch.Tensor) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and torch.equal(bits(first), bits(second))


@dataclass
class Checked:
    """A captured graph, and the eager results every rewritten form of it has to reproduce."""

    module: fx.GraphModule
    context: PassContext
    tensors: list[torch.Tensor]
    results: list[torch.Tensor]
    states: list[torch.Tensor]
    inputs: tuple[GraphInput, ...]
    changed: int = 0

    def targets(self) -> list[Any]:
        return [node.target for node in self.module.graph.nodes if node.op == "call_function"]

    def assert_same_bits(self) -> None:
        """Interpret the graph as it is now and compare results and updated inputs with the captured graph's."""
        tensors = [tensor.clone() for tensor in self.tensors]
        carriers = [self.context.carriers.get(i, tensor.dtype) for i, tensor in enumerate(tensors)]
        views = [carry(tensor, carrier) for tensor, carrier in zip(tensors, carriers, strict=True)]
        for position, layout in self.context.layouts.items():
            views[position] = layout.arrange(views[position])
        outputs = list(fx.Interpreter(self.module).run(*views))
        for position, dtype in self.context.result_dtypes.items():
            outputs[position] = carry(outputs[position], dtype)
        for position, source in self.context.aliases.items():
            views[source].copy_(outputs[position])
        for result, expected in zip(outputs, self.results, strict=False):
            assert equal_bits(result, expected)
        assert len(outputs) - len(self.context.aliases) == len(self.results)
        for tensor, expected in zip(tensors, self.states, strict=True):
            assert equal_bits(tensor, expected)


def make_checked(function: Callable[..., Any], example_inputs: Sequence[torch.Tensor], **facts: Any) -> Checked:
    """Capture a function or module, run the graph in eager and keep what it gave."""
    captured = capture(function, example_inputs)
    names = inspect.signature(getattr(function, "forward", function)).parameters
    given = dict(zip(names, example_inputs, strict=True))
    owners = [given[one.qualified_name] if one.tensor is None else one.tensor for one in captured.inputs]
    tensors = [tensor.detach().clone() for tensor in owners]
    states = [tensor.clone() for tensor in tensors]
    results = [one.clone() for one in fx.Interpreter(copy.deepcopy(captured.module)).run(*states)]
    return Checked(captured.module, PassContext(**facts), tensors, results, states, captured.inputs)


@pytest.fixture(scope="session")
def checked() -> Callable[..., Checked]:
    return make_checked
