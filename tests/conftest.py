from pathlib import Path

import hypothesis
import pytest
import torch

# On a busy machine an example takes as long as it takes.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

# Small tensors gain nothing from a second thread, and waiting for one is slow on a busy machine.
torch.set_num_threads(1)

VECTORS = Path(__file__).parent / "vectors"


@pytest.fixture(params=["nano_a", "nano_b"])
def vectors_directory(request: pytest.FixtureRequest) -> Path:
    """Each golden checkpoint made by an independent implementation."""
    return VECTORS / request.param


@pytest.fixture(scope="session")
def nano_a() -> Path:
    return VECTORS / "nano_a"
