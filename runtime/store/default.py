"""The store that the environment asks for, or the one that is named."""

from __future__ import annotations

from pathlib import Path

from ...errors import ConfigError
from ...settings import settings
from .store import ArtifactStore


def default_store() -> ArtifactStore | None:
    """The store of ``DEEPINFER_NEURON_CACHE``; None if nothing is to be stored."""
    directories = settings().cache_directories
    return ArtifactStore(directories[0], directories[1:]) if directories else None


def open_store(store: ArtifactStore | str | Path | None) -> ArtifactStore:
    """A store, the one in a directory, or left out that of the environment; raises ConfigError if that has none."""
    if isinstance(store, ArtifactStore):
        return store
    opened = default_store() if store is None else ArtifactStore(Path(store))
    if opened is None:
        raise ConfigError("which store? name its directory (--store) or set DEEPINFER_NEURON_CACHE")
    return opened
