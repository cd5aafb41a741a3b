from pathlib import Path

import pytest
import torch
from deepinfer_neuron.model.accuracy.golden import write_golden
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint

VECTORS = Path(__file__).parents[2] / "vectors"
SHORT_PROMPTS = {"one": [5], "twenty": list(range(20, 40))}


@pytest.fixture
def checkpoint(nano_a):
    return open_checkpoint(nano_a)


@pytest.fixture(scope="session")
def golden_file(tmp_path_factory):
    """A golden file of two short prompts of nano_a, and what write_golden returned."""
    path = tmp_path_factory.mktemp("golden") / "golden.safetensors"
    directory = VECTORS / "nano_a"
    return path, write_golden(open_checkpoint(directory), path, prompts=SHORT_PROMPTS, steps=3)


@pytest.fixture
def generator():
    return torch.Generator().manual_seed(3)
