import json

import pytest
import torch
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.model.accuracy.tensor_file import read_tensors
from deepinfer_neuron.model.accuracy.vectors import read_requests, write_vectors
from deepinfer_neuron.model.numerics import Numerics


def inputs(tmp_path, **prompt):
    path = tmp_path / "inputs.json"
    path.write_text(json.dumps({"prompts": {"p": prompt}}))
    return path


def test_several_rows_get_a_leading_axis(checkpoint, tmp_path):
    rows = [[3, 4, 5, 6], [9, 8, 7, 6]]
    drafts = [{"P": 2, "token": 11, "forced": [1, 2, 3, 4]}]
    path = tmp_path / "both.safetensors"
    numerics = Numerics(torch.float32)
    both = write_vectors(
        checkpoint, read_requests(inputs(tmp_path, ids=rows, h_pos=[3], drafts=drafts)), path, numerics
    )
    stored, metadata = read_tensors(path)
    assert metadata["mode"] == "fp32_kvq_actq"
    assert stored.keys() == both.keys()
    for row, ids in enumerate(rows):
        single = write_vectors(
            checkpoint, read_requests(inputs(tmp_path, ids=[ids], h_pos=[3], drafts=drafts)), path, numerics
        )
        for name, value in single.items():
            assert torch.equal(both[name][row], value), name


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ({}, "ids"),
        ({"ids": []}, "one or more rows"),
        ({"ids": [[1, 2], [3]]}, "one length"),
        ({"ids": [[1, 2]], "h_pos": [2]}, "position 2 of a prompt of 2"),
        ({"ids": [[1, 2]], "drafts": [{"P": 5, "token": 1, "forced": []}]}, "position 5"),
        ({"ids": [[1, 2]], "drafts": [{"P": 1}]}, "token"),
    ],
)
def test_bad_inputs_are_refused(tmp_path, prompt, message):
    with pytest.raises(InputError, match=message):
        read_requests(inputs(tmp_path, **prompt))


def test_a_missing_or_unreadable_file_is_refused(tmp_path):
    with pytest.raises(InputError, match="FileNotFoundError"):
        read_requests(tmp_path / "absent.json")
    broken = tmp_path / "broken.json"
    broken.write_text("{")
    with pytest.raises(InputError, match="JSONDecodeError"):
        read_requests(broken)
