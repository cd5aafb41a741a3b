"""What a decode model and its weights are, as data: two models of equal identity are compiled to equal programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from ..runtime.dtype_names import name_of
from ..runtime.sources import source_digests
from .checkpoint.fingerprint import checkpoint_fingerprint
from .checkpoint.loader import Checkpoint
from .config import ModelConfig
from .kv_cache import CacheGeometry
from .numerics import Numerics


def model_identity(config: ModelConfig, geometry: CacheGeometry, numerics: Numerics) -> dict[str, Any]:
    """JSON values that decide a model's graph; equal for all checkpoints of one configuration."""
    values = asdict(config)
    del values["raw"]
    return {
        "config": values,
        "geometry": asdict(geometry),
        "numerics": asdict(numerics) | {"dtype": name_of(numerics.dtype)},
        "sources": source_digests(f"{__package__}.decode"),
    }


def weights_identity(checkpoint: Checkpoint) -> dict[str, Any]:
    """JSON values that tell a checkpoint's weights from any others, without reading all of them.

    The sampled fingerprint, the time of the last change of every file (one that was written again counts as another,
    whatever it holds), and the sources that make a model's tensors of them.
    """
    files = sorted({stored.file for stored in checkpoint.tensors.values()})
    return {
        "fingerprint": checkpoint_fingerprint(checkpoint),
        "changed_ns": {file.name: file.stat().st_mtime_ns for file in files},
        "sources": source_digests(f"{__package__}.weights"),
    }
