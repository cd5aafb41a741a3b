from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.artifacts import Artifact, TensorType
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.programs import made_program, program_of
from deepinfer_neuron.runtime.store.store import ArtifactStore

KEY = ArtifactKey("program", {"n": 1})
PROGRAM = Artifact(
    target="host",
    payload=bytes(range(256)),
    inputs=(TensorType(torch.bfloat16, (2, 3)), TensorType(torch.int32, ())),
    outputs=(TensorType(torch.float32, (0,)), TensorType(torch.bfloat16, (2, 3))),
    aliases={1: 0},
    runtime_zero=True,
    fingerprint="compiler 1",
)


def test_a_program_comes_back(store: ArtifactStore) -> None:
    store.get_or_make(KEY, lambda: made_program(PROGRAM, "layer 3"))
    entry = store.get(KEY)
    assert entry is not None
    assert program_of(entry) == PROGRAM
    assert entry.manifest.metadata["description"] == "layer 3"


@pytest.mark.parametrize(
    "changes", [{"target": None}, {"inputs": [{"dtype": "Tensor", "shape": []}]}, {"outputs": 1}, {"aliases": [[1]]}]
)
def test_an_entry_that_is_no_program_is_refused(store: ArtifactStore, changes: dict[str, object]) -> None:
    made = made_program(PROGRAM, "")
    metadata = {name: value for name, value in {**made.metadata, **changes}.items() if value is not None}
    with pytest.raises(ArtifactError, match="is no program of this version"):
        program_of(store.put(KEY, made.files, metadata))
