"""Tensors in one safetensors file, laid out so that a device can use the mapped file as it is.

A device shares memory with the host only on ``ALIGNMENT`` boundaries. The format packs tensors without gaps, so the
header is padded to such a boundary and tensors that are no multiple of it long come last; those few are copied when
the file is mapped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from ..errors import ArtifactError
from .memory import ALIGNMENT, is_shareable, shareable_copy

_LENGTH_BYTES = 8
_PIECE_BYTES = 1 << 24

_FORMAT_NAMES = {
    torch.bool: "BOOL",
    torch.uint8: "U8",
    torch.int8: "I8",
    torch.int16: "I16",
    torch.uint16: "U16",
    torch.int32: "I32",
    torch.uint32: "U32",
    torch.int64: "I64",
    torch.uint64: "U64",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float32: "F32",
    torch.float64: "F64",
}
"""Names that the safetensors format gives to the types of program inputs."""


def write_image(write: Callable[[bytes | memoryview], Any], tensors: Mapping[str, Tensor]) -> None:
    """Write contiguous CPU tensors of any shapes as a safetensors file, piece by piece.

    Raises:
        ArtifactError: a tensor has a type that program inputs do not have.
    """
    ordered = dict(sorted(tensors.items(), key=lambda item: (item[1].nbytes % ALIGNMENT != 0, item[0])))
    write(_header(ordered))
    for tensor in ordered.values():
        content = tensor.detach().reshape(-1).view(torch.uint8).numpy().data
        for start in range(0, len(content), _PIECE_BYTES):
            write(content[start : start + _PIECE_BYTES])


def map_image(path: Path) -> dict[str, Tensor]:
    """The tensors of an image by name, in memory that a device can use; pages are read when they are first touched.

    Writing to a tensor changes this process's copy of its pages, never the file.

    Raises:
        ArtifactError: the file is no safetensors file.
    """
    try:
        with safe_open(path, framework="pt") as file:
            mapped = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise ArtifactError(f"{path} is no readable weight image ({error}); remove it, it is made again") from error
    return {name: tensor if is_shareable(tensor) else shareable_copy(tensor) for name, tensor in mapped.items()}


def _header(tensors: Mapping[str, Tensor]) -> bytes:
    entries: dict[str, Any] = {}
    start = 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _FORMAT_NAMES:
            raise ArtifactError(f"{name!r} is {tensor.dtype}, which no program takes: carry it as uint8")
        end = start + tensor.nbytes
        entries[name] = {
            "dtype": _FORMAT_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
        start = end
    text = json.dumps(entries, separators=(",", ":")).encode()
    padding = -(_LENGTH_BYTES + len(text)) % ALIGNMENT
    return (len(text) + padding).to_bytes(_LENGTH_BYTES, "little") + text + b" " * padding
