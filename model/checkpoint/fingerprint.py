"""A digest that tells one checkpoint from another without reading all of it."""

from __future__ import annotations

import hashlib
from pathlib import Path

from .loader import Checkpoint

SAMPLES = 16
SAMPLE_BYTES = 65536


def checkpoint_fingerprint(checkpoint: Checkpoint) -> str:
    """sha256 over config.json and, for each weight file, its name, size and evenly spaced samples of its bytes.

    Another seed, config, layout or truncation changes it; an edit of a few bytes between the samples does not.
    """
    digest = hashlib.sha256((checkpoint.directory / "config.json").read_bytes())
    for path in sorted({stored.file for stored in checkpoint.tensors.values()}):
        size = path.stat().st_size
        digest.update(f"{path.name}:{size}".encode())
        for sample in _samples(path, size):
            digest.update(sample)
    return digest.hexdigest()


def _samples(path: Path, size: int) -> list[bytes]:
    step = max(size // SAMPLES, SAMPLE_BYTES)
    with path.open("rb") as stream:
        samples = []
        for offset in range(0, size, step):
            stream.seek(offset)
            samples.append(stream.read(SAMPLE_BYTES))
        return samples
