from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import torch

# On a busy machine an example takes as long as it takes.
hypothesis.settings.register_profile("no deadline", deadline=None)
hypothesis.settings.load_profile("no deadline")

# Small tensors gain nothing from a second thread, and waiting for one is slow on a busy machine.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

if TYPE_CHECKING:
    from nrt_standin import Standin

VECTORS = Path(__file__).parent / "vectors"


@pytest.fixture(params=["nano_a", "nano_b"])
def vectors_directory(request: pytest.FixtureRequest) -> Path:
    """Each golden checkpoint made by an independent implementation."""
    return VECTORS / request.param


@pytest.fixture(scope="session")
def nano_a() -> Path:
    return VECTORS / "nano_a"


@pytest.fixture(scope="session")
def standin_library(tmp_path_factory: pytest.TempPathFactory) -> Standin:
    """The stand-in for libnrt, compiled once for each process that runs tests."""
    from nrt_standin import Standin

    return Standin(tmp_path_factory.mktemp("libnrt"))


@pytest.fixture
def standin(standin_library: Standin, monkeypatch: pytest.MonkeyPatch) -> Iterator[Standin]:
    """A machine with four logical cores of a Trainium 2; afterwards nothing is left on it and no rule was broken."""
    from deepinfer_neuron.runtime.devices.nrt import runtime

    monkeypatch.delenv("NEURON_RT_VISIBLE_CORES", raising=False)
    standin_library.machine()
    yield standin_library
    standin_library.fail("", 0)
    if runtime._opened is not None:
        runtime._opened.close()
    assert standin_library.alive() == {"tensors": 0, "sets": 0, "models": 0}
    assert standin_library.notes() == []


@pytest.fixture
def on_neuron(standin: Standin, monkeypatch: pytest.MonkeyPatch) -> Standin:
    """The machine with DEEPINFER_NEURON_DEVICE=neuron, and a compiler for it."""
    from deepinfer_neuron.compiler.targets import table
    from deepinfer_neuron.engine import decode_source
    from deepinfer_neuron.runtime.devices import choice
    from deepinfer_neuron.runtime.devices.nrt import device
    from deepinfer_neuron.settings import Settings
    from nrt_standin import StandinTarget

    asked = Settings(device="neuron", neuron_library=standin.path)
    for module in (choice, device):
        monkeypatch.setattr(module, "settings", lambda: asked)
    monkeypatch.setitem(table.TARGETS, StandinTarget.name, StandinTarget)
    monkeypatch.setattr(decode_source, "_fingerprint", lambda target: StandinTarget().fingerprint())
    return standin
