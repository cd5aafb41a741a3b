from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.regions.canonical import canonical_digest, canonical_text
from deepinfer_neuron.compiler.regions.cut import Region
from deepinfer_neuron.compiler.regions.cut_graph import cut_graph
from deepinfer_neuron.passes.context import PassContext
from deepinfer_neuron.passes.pipeline import run_passes

X, Y = torch.randn(2, 4), torch.randn(2, 4)


def region_of(function: Callable[..., torch.Tensor], *inputs: torch.Tensor) -> Region:
    graph = capture(function, inputs or (X, Y))
    context = PassContext()
    run_passes(graph.module, context)
    (region,) = cut_graph(graph.module, context.aliases, context.stage_names, whole=True).regions
    return region


def base(x, y):
    return (x * 2 + y).sum(-1)


def test_names_and_the_order_of_commutative_arguments_do_not_count():
    def renamed(first, second):
        doubled = first * 2
        return (second + doubled).sum(-1)

    assert canonical_text(region_of(base)) == canonical_text(region_of(renamed))


@pytest.mark.parametrize(
    "other",
    [
        lambda x, y: (x * 3 + y).sum(-1),
        lambda x, y: (x * 2.0 + y).sum(-1),
        lambda x, y: (x * 2 - y).sum(-1),
        lambda x, y: (x * 2 + y).sum(0),
        lambda x, y: (x * 2 + y).sum(-1, keepdim=True),
        lambda x, y: torch.add(x * 2, y, alpha=2).sum(-1),
        lambda x, y: (x * 2 + torch.ones(4)).sum(-1) + y.sum(-1) * 0,
        lambda x, y: ((x * 2 + y).sum(-1), x + 1),
    ],
)
def test_every_operator_literal_and_output_counts(other):
    assert canonical_digest(region_of(base)) != canonical_digest(region_of(other))


def test_subtraction_keeps_the_order_of_its_arguments():
    regions = [region_of(lambda x, y: (x.sin() + y) - x.sin()), region_of(lambda x, y: x.sin() - (x.sin() + y))]
    assert canonical_digest(regions[0]) != canonical_digest(regions[1])


@pytest.mark.parametrize("inputs", [(X.double(), Y.double()), (X[:1], Y[:1]), (X, Y[:, :1])])
def test_dtypes_and_shapes_count(inputs):
    assert canonical_digest(region_of(base)) != canonical_digest(region_of(base, *inputs))


class Constant(torch.nn.Module):
    def __init__(self, value):
        super().__init__()
        self.value = value

    def forward(self, x):
        return x + torch.tensor(self.value)


def test_values_of_constant_tensors_count():
    one, same, other = (canonical_digest(region_of(Constant(value), X)) for value in ([1.0] * 4, [1.0] * 4, [2.0] * 4))
    assert one == same != other


class Counting(torch.nn.Module):
    def __init__(self, updates):
        super().__init__()
        self.register_buffer("a", torch.zeros(4))
        self.register_buffer("b", torch.zeros(4))
        self.updates = updates

    def forward(self, x):
        total = self.a + self.b + x.sum(0)
        getattr(self, self.updates).copy_(total)
        return x + total


def test_which_input_an_output_aliases_counts():
    assert canonical_digest(region_of(Counting("a"), X)) != canonical_digest(region_of(Counting("b"), X))
