"""A compiled program and what is needed to call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from .dtype_names import dtype_named, name_of


@dataclass(frozen=True, slots=True)
class TensorType:
    """Element type and static shape of one program input or output."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TensorType:
        """What ``to_json`` wrote; raises KeyError, TypeError or ValueError for anything else."""
        return cls(dtype_named(data["dtype"]), tuple(data["shape"]))

    def to_json(self) -> dict[str, Any]:
        """The type as a JSON object."""
        return {"dtype": name_of(self.dtype), "shape": list(self.shape)}

    def __str__(self) -> str:
        return f"{name_of(self.dtype)}{list(self.shape)}"


@dataclass(frozen=True)
class Artifact:
    """One compiled program.

    ``aliases`` maps an output index to the input whose memory it takes over.
    ``runtime_zero`` says that the program has one more int32 scalar input after
    ``inputs``, which the device feeds with zero.
    ``fingerprint`` names compiler, flags and machine features; a device refuses a payload made for another one.
    ``log`` is what the compiler said, if it is a program of its own.
    """

    target: str
    payload: bytes
    inputs: tuple[TensorType, ...]
    outputs: tuple[TensorType, ...]
    aliases: Mapping[int, int]
    runtime_zero: bool
    fingerprint: str
    log: str = ""
