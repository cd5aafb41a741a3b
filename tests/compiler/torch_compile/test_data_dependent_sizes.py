from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def selects_by_mask(x):
    return x[x > 0] * 2


def finds_positions(x):
    return x.nonzero() + 1


def makes_a_size(x):
    return torch.ones(x.long().sum().item())


def selects(x):
    return x.masked_select(x > 0).sum()


def sorts_out(x):
    return torch.unique(x) + 1


def counts(x):
    return torch.bincount(x.long().abs()) + 1


def repeats(x):
    return torch.repeat_interleave(x, torch.tensor([1, 2, 1, 1]), dim=0) + 1


@pytest.mark.parametrize(
    ("function", "operator", "advice"),
    [
        (selects_by_mask, "aten.index.Tensor", "use torch.where"),
        (finds_positions, "aten.nonzero.default", "use torch.where"),
        (makes_a_size, "aten._local_scalar_dense.default", "no .item"),
        (selects, "aten.masked_select.default", "fill value"),
        (sorts_out, "aten._unique2.default", "compare neighbours"),
        (counts, "aten.bincount.default", "scatter_add"),
        (repeats, "aten.repeat_interleave.Tensor", "output_size"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_operator_its_line_and_what_to_write_are_named(function, operator, advice):
    compiled = torch.compile(function, backend="deepinfer_neuron", fullgraph=True)
    line = function.__code__.co_firstlineno + 1
    with pytest.raises(Exception, match=rf"{operator} at .*test_data_dependent_sizes.py:{line}: .*{advice}") as caught:
        compiled(torch.tensor([1.0, -1.0, 2.0, 0.0]))
    assert type(caught.value.inner_exception).__name__ == "CaptureError"


@pytest.mark.parametrize("function", [selects_by_mask, finds_positions, makes_a_size])
def test_a_graph_may_break_at_them(function):
    x = torch.tensor([1.0, -1.0, 2.0, 0.0])
    assert torch.equal(torch.compile(function, backend="deepinfer_neuron")(x), function(x))


def test_a_number_that_only_scales_is_no_size():
    def scales(x):
        return x * x.sum().item()

    x = torch.tensor([1.0, 2.0])
    assert torch.equal(torch.compile(scales, backend="deepinfer_neuron", fullgraph=True)(x), scales(x))
