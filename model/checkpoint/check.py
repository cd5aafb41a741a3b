"""Reads a whole checkpoint and says what is in it: `deepinfer-neuron tiny check`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from ...errors import CheckpointError
from ...reporting import Count
from ...runtime.dtype_names import name_of
from .faults import fault_list
from .loader import Checkpoint, open_checkpoint

_ADVICE = "Allowed are finite numbers, and scale bytes 1 to 254. Fetch or make the named tensors again."


@dataclass(frozen=True)
class DtypeSummary:
    """Tensors and bytes stored with one dtype."""

    dtype: str
    tensors: int
    bytes: int


@dataclass(frozen=True)
class CheckpointSummary:
    """What a checkpoint holds; ``bytes`` count tensor data only."""

    directory: str
    tensors: int
    bytes: int
    shards: tuple[str, ...]
    dtypes: tuple[DtypeSummary, ...]
    layers: int
    draft_stages: int
    engram_rows: int


def check_checkpoint(directory: str | Path, on_bytes: Count = lambda _done, _total: None) -> CheckpointSummary:
    """Check layout, engram constants and every stored value; raises CheckpointError naming the tensors at fault.

    A value is at fault if it is NaN or infinite, or a scale byte is 0 or 255 (hardware decoders disagree on 0).
    """
    with open_checkpoint(directory) as checkpoint:
        checkpoint.engram_tables()
        faults = _value_faults(checkpoint, on_bytes)
        if faults:
            raise CheckpointError(fault_list(f"{directory} holds values it may not hold:", faults, _ADVICE))
        return _summary(checkpoint)


def _value_faults(checkpoint: Checkpoint, on_bytes: Count) -> list[str]:
    total = sum(stored.spec.nbytes for stored in checkpoint.tensors.values())
    faults: list[str] = []
    done = 0
    for name, stored in checkpoint.tensors.items():
        bad = _bad_values(checkpoint.tensor(name))
        if bad:
            faults.append(f"{name}: {bad} of {checkpoint.tensor(name).numel()} values")
        done += stored.spec.nbytes
        on_bytes(done, total)
    return faults


def _bad_values(tensor: Tensor) -> int:
    if tensor.dtype == torch.int8:
        return 0
    if tensor.dtype == torch.float8_e8m0fnu:
        stored = tensor.view(torch.uint8)
        return int(((stored == 0) | (stored == 255)).sum())
    if tensor.dtype == torch.float8_e4m3fn:
        return int(((tensor.view(torch.uint8) & 0x7F) == 0x7F).sum())
    return int((~tensor.isfinite()).sum())


def _summary(checkpoint: Checkpoint) -> CheckpointSummary:
    tensors: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for stored in checkpoint.tensors.values():
        dtype = name_of(stored.spec.dtype)
        tensors[dtype] += 1
        sizes[dtype] += stored.spec.nbytes
    return CheckpointSummary(
        directory=str(checkpoint.directory),
        tensors=tensors.total(),
        bytes=sizes.total(),
        shards=tuple(sorted({stored.file.name for stored in checkpoint.tensors.values()})),
        dtypes=tuple(DtypeSummary(dtype, tensors[dtype], sizes[dtype]) for dtype in sorted(tensors)),
        layers=checkpoint.config.num_hidden_layers,
        draft_stages=checkpoint.config.num_nextn_predict_layers,
        engram_rows=sum(checkpoint.config.engram_num_embeddings),
    )
