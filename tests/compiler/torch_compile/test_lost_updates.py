from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.errors import CaptureError, GraphError


def add(x):
    x.add_(1)
    return x * 2


def increase(x):
    x += 1
    return x * 2


def store(x):
    x[...] = 3
    return x * 2


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("update", [add, increase, store])
def test_updates_that_pytorch_would_forget_are_refused(update):
    compiled = torch.compile(update, backend="deepinfer_neuron", fullgraph=True)
    x = torch.tensor(4.0, dtype=torch.float64)
    with pytest.raises(
        Exception, match=rf"at .*test_lost_updates.py:{update.__code__.co_firstlineno + 1} .*shape \[1\]"
    ) as caught:
        compiled(x)
    assert isinstance(caught.value.inner_exception, GraphError)
    assert x == 4


@pytest.mark.parametrize("update", [add, increase, store])
@pytest.mark.parametrize("x", [torch.tensor(4.0), torch.tensor([4.0], dtype=torch.float64)], ids=["float32", "rank 1"])
def test_other_updates_arrive(update, x):
    given, expected = x.clone(), x.clone()
    assert torch.equal(torch.compile(update, backend="deepinfer_neuron", fullgraph=True)(given), update(expected))
    assert torch.equal(given, expected)


def test_updates_of_an_input_whose_elements_share_memory_are_refused():
    def update(x):
        x.select(0, -1)[:1] = 2
        return x * 2

    compiled = torch.compile(update, backend="deepinfer_neuron", fullgraph=True)
    with pytest.raises(Exception, match="clone it first") as caught:
        compiled(torch.ones(2).expand(3, 2))
    assert isinstance(caught.value.inner_exception, CaptureError)
