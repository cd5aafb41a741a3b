"""Safetensors files with metadata, written whole or not at all."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from ...errors import ArtifactError
from ...files import written_whole


def write_tensors(path: str | Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write a safetensors file, whole or not at all."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as partial:
        save_file({name: value.contiguous() for name, value in tensors.items()}, partial, dict(metadata))


def read_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Tensors and metadata of a file; raises ArtifactError if it is missing, truncated or of another kind."""
    path = Path(path)
    try:
        with safe_open(path, framework="pt") as stored:
            return {name: stored.get_tensor(name) for name in stored.keys()}, dict(stored.metadata() or {})  # noqa: SIM118
    except FileNotFoundError:
        raise ArtifactError(f"{path} does not exist; `deepinfer-neuron golden DIR` writes one") from None
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} is not a whole safetensors file ({error}); write it again") from None
