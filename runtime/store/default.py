"""The store that the environment asks for."""

from __future__ import annotations

from ...settings import settings
from .store import ArtifactStore


def default_store() -> ArtifactStore | None:
    """The store of ``DEEPINFER_NEURON_CACHE``; None if nothing is to be stored."""
    directories = settings().cache_directories
    return ArtifactStore(directories[0], directories[1:]) if directories else None
