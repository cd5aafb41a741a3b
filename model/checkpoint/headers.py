"""What the safetensors files of a directory claim to hold, read from their headers and the index alone.

A file is ``u64 header length | JSON header | data``; the header gives each tensor's dtype, shape and byte range.
Faults go to ``report(name, what is wrong)``, the name being a tensor's or a file's.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from .layout import TensorSpec

INDEX_FILE = "model.safetensors.index.json"
SINGLE_FILE = "model.safetensors"

DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "F8_E8M0": torch.float8_e8m0fnu,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

FaultReport = Callable[[str, str], object]


@dataclass(frozen=True)
class StoredTensor:
    """One tensor as its file's header describes it; ``begin`` and ``end`` bound its bytes in the file's data."""

    file: Path
    name: str
    spec: TensorSpec
    begin: int
    end: int


def read_directory(directory: Path, report: FaultReport) -> dict[str, StoredTensor]:
    """Stored name -> description for every tensor in the directory's shards.

    With an index, the shards are those it names and must hold what it says; without one, ``model.safetensors`` alone.
    """
    if (directory / INDEX_FILE).exists():
        return _read_indexed(directory, report)
    if (directory / SINGLE_FILE).exists():
        return read_header(directory / SINGLE_FILE, report)
    report(str(directory), f"neither {INDEX_FILE} nor {SINGLE_FILE} is there")
    return {}


def _read_indexed(directory: Path, report: FaultReport) -> dict[str, StoredTensor]:
    index = _read_index(directory / INDEX_FILE, report)
    tensors: dict[str, StoredTensor] = {}
    for shard in sorted(set(index.values())):
        if not (directory / shard).is_file():
            report(shard, "the index names this shard, but the file is not there")
            continue
        for name, stored in read_header(directory / shard, report).items():
            if index.get(name) != shard:
                report(name, f"{shard} holds it, but the index places it in {index.get(name, 'no shard')}")
            tensors[name] = stored
    for name, shard in index.items():
        if name not in tensors:
            report(name, f"missing: the index places it in {shard}, which does not hold it")
    return tensors


def _read_index(path: Path, report: FaultReport) -> dict[str, str]:
    try:
        weight_map = json.loads(path.read_text())["weight_map"]
    except (ValueError, KeyError, TypeError) as error:
        report(path.name, f"not a JSON object with a weight_map ({type(error).__name__}: {error})")
        return {}
    if not isinstance(weight_map, dict) or not all(map(_is_plain_file_name, weight_map.values())):
        report(path.name, "weight_map must map tensor names to names of files beside it")
        return {}
    return weight_map


def _is_plain_file_name(shard: object) -> bool:
    return isinstance(shard, str) and shard == Path(shard).name


def read_header(path: Path, report: FaultReport) -> dict[str, StoredTensor]:
    """Stored name -> description for one file, whose byte ranges are checked against its size."""
    size = path.stat().st_size
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > size - 8:
            report(path.name, f"truncated: {size} bytes do not hold its header")
            return {}
        header = file.read(length)
    try:
        entries = json.loads(header)
        entries.pop("__metadata__", None)
        tensors = {name: _describe(path, name, entry) for name, entry in entries.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        report(path.name, f"damaged header ({type(error).__name__}: {error})")
        return {}
    _check_ranges(path.name, tensors, size - 8 - length, report)
    return tensors


def _describe(path: Path, name: str, entry: dict[str, Any]) -> StoredTensor:
    if entry["dtype"] not in DTYPES:
        raise ValueError(f"{name} has unknown dtype {entry['dtype']}")
    begin, end = entry["data_offsets"]
    return StoredTensor(path, name, TensorSpec(DTYPES[entry["dtype"]], tuple(entry["shape"])), int(begin), int(end))


def _check_ranges(file: str, tensors: dict[str, StoredTensor], available: int, report: FaultReport) -> None:
    """Ranges must follow each other without gap or overlap up to the last byte, each as long as its shape needs."""
    position = 0
    for name, stored in sorted(tensors.items(), key=lambda item: item[1].begin):
        needed = stored.spec.nbytes
        if stored.end > available:
            report(name, f"truncated: ends at byte {stored.end}, but {file} has {available} bytes of data")
        elif stored.end - stored.begin != needed:
            report(name, f"occupies {stored.end - stored.begin} bytes of {file}, but its shape needs {needed}")
        elif stored.begin != position:
            report(name, f"begins at byte {stored.begin} of {file}, expected {position}")
        position = stored.end
    if available > position:
        report(file, f"{available - position} bytes follow the last tensor")
