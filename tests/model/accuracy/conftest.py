import pytest
import torch
from deepinfer_neuron.model.accuracy.golden import write_golden
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint

SHORT_PROMPTS = {"one": [5], "twenty": list(range(20, 40))}


@pytest.fixture
def checkpoint(small):
    return open_checkpoint(small)


@pytest.fixture(scope="session")
def golden_file(small, tmp_path_factory):
    """A golden file of two short prompts, and what write_golden returned."""
    path = tmp_path_factory.mktemp("golden") / "golden.safetensors"
    return path, write_golden(open_checkpoint(small), path, prompts=SHORT_PROMPTS, steps=3)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(3)
