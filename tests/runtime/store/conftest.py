from __future__ import annotations

from pathlib import Path

import pytest
from deepinfer_neuron.runtime.store.key import ArtifactKey
from deepinfer_neuron.runtime.store.store import ArtifactStore


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    return ArtifactStore(tmp_path / "store")


@pytest.fixture
def key() -> ArtifactKey:
    return ArtifactKey("plan", {"sizes": [1, 2, 4], "options": {"numerics": "exact"}}, {"graph": "%0 = x\n%1 = y"})
