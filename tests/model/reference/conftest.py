import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
import torch
from deepinfer_neuron.model.accuracy.vectors import read_requests, write_vectors
from deepinfer_neuron.model.checkpoint.loader import Checkpoint, open_checkpoint
from deepinfer_neuron.model.numerics import Numerics
from safetensors.torch import load_file
from torch import Tensor

VECTORS = Path(__file__).parents[2] / "vectors"

MODES = {
    "fp32": Numerics(torch.float32, kv_quant=False, act_quant=False),
    "fp32_kvq": Numerics(torch.float32, kv_quant=True, act_quant=False),
    "bf16_kvq": Numerics(torch.bfloat16, kv_quant=True, act_quant=False),
}


@dataclass(frozen=True)
class Published:
    """One directory of published vectors: its checkpoint, inputs, limits and expected values."""

    checkpoint: Checkpoint
    prompts: dict
    limits: dict
    expected: dict[str, Tensor]

    def ids(self, prompt: str) -> list[int]:
        return self.prompts[prompt]["ids"][0]


@cache
def _published(name: str) -> Published:
    directory = VECTORS / name
    return Published(
        open_checkpoint(directory),
        json.loads((directory / "inputs.json").read_text())["prompts"],
        json.loads((directory / "tolerances.json").read_text()),
        load_file(directory / "outputs.safetensors"),
    )


@pytest.fixture(params=["nano_a", "nano_b"])
def published(request: pytest.FixtureRequest) -> Published:
    return _published(request.param)


@pytest.fixture
def published_a() -> Published:
    return _published("nano_a")


@pytest.fixture(scope="session")
def modes() -> dict[str, Numerics]:
    return MODES


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="session")
def computed(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Published, str], dict[str, Tensor]]:
    """The reference's values of all published prompts in one mode, under their published names."""
    path = tmp_path_factory.mktemp("vectors") / "out.safetensors"

    @cache
    def compute(directory: Path, mode: str) -> dict[str, Tensor]:
        checkpoint = _published(directory.name).checkpoint
        return write_vectors(checkpoint, read_requests(directory / "inputs.json"), path, MODES[mode])

    return lambda published, mode: compute(published.checkpoint.directory, mode)
