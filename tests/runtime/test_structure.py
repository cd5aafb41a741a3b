from __future__ import annotations

import json

import pytest
import torch
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.runtime.structure import builder, describe


def test_a_description_survives_json_and_builds_the_same_structure():
    tensors = [torch.zeros(1), torch.ones(1)]
    value = {"a": tensors[1], "b": (tensors[0], [3, 1.5, None, "x", True]), "c": {}}
    description = json.loads(json.dumps(describe(value, lambda tensor: int(tensor.item()))))
    assert builder(description)(["zero", "one"]) == {"a": "one", "b": ("zero", [3, 1.5, None, "x", True]), "c": {}}


@pytest.mark.parametrize("value", [{1: 2}, {"a": {2, 3}}, 1j, torch.Size([1])])
def test_other_containers_are_refused(value):
    with pytest.raises(InputError, match="cannot be described"):
        describe(value, lambda tensor: 0)
