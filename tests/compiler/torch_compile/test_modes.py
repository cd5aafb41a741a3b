from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.compiler.torch_compile.modes import MODES


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("mode", MODES)
def test_modes_change_nothing(mode):
    compiled = torch.compile(torch.nn.ReLU(), backend="deepinfer_neuron", mode=mode)
    assert compiled(torch.tensor([-1.0, 2.0])).tolist() == [0, 2]


def test_unknown_modes_are_refused_by_name():
    compiled = torch.compile(torch.nn.ReLU(), backend="deepinfer_neuron", mode="fastest")
    with pytest.raises(Exception, match="unknown mode 'fastest'"):
        compiled(torch.ones(2))


def test_functions_to_be_written_by_pickle_are_refused():
    compiled = torch.compile(lambda x: x * 2, backend="deepinfer_neuron", fullgraph=True)
    with pytest.raises(Exception, match="cannot be used with aot_compile"):
        compiled.aot_compile(((torch.ones(3),), {}))
    assert compiled(torch.ones(3)).tolist() == [2, 2, 2]
