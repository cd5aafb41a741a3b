"""Opens a checkpoint directory: checks every tensor from the file headers, then maps the data on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from ...errors import CheckpointError
from ...runtime.dtype_names import name_of
from ..config import ModelConfig
from ..engram_hash import EngramTables, build_engram_tables, load_engram_tables
from .faults import fault_list
from .formats import decode_engram_rows, decode_fp4_weight, decode_fp8_weight
from .halved_fp8 import double_ue8m0, halve_e4m3
from .headers import FaultReport, StoredTensor, read_directory
from .layout import TensorSpec, expected_tensors
from .names import canonical_name
from .tokenizer import token_map

ENGRAM_TABLES_FILE = "engram_tables.safetensors"
_ADVICE = "Fetch the named files again, or make a new checkpoint with `deepinfer-neuron tiny make DIR`."


@dataclass(frozen=True)
class Checkpoint:
    """An open checkpoint whose every tensor is known to be there, of the right dtype and shape.

    Tensors are views of memory-mapped files: nothing is read until used and no second copy is kept. Use it as a
    context manager, or call :meth:`close`; tensors already handed out stay valid.
    """

    directory: Path
    config: ModelConfig
    tensors: Mapping[str, StoredTensor]
    _files: dict[Path, Any] = field(default_factory=dict, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """Canonical names, in layout order."""
        return tuple(self.tensors)

    def tensor(self, name: str) -> Tensor:
        """The stored tensor of a canonical name, memory-mapped, with its stored dtype."""
        stored = self._stored(name)
        if stored.file not in self._files:
            self._files[stored.file] = safe_open(stored.file, framework="pt")
        return self._files[stored.file].get_tensor(stored.name)

    def decoded(self, prefix: str, dtype: torch.dtype, halved: bool = False) -> Tensor:
        """``prefix.weight`` with its ``prefix.scale`` applied, in ``dtype`` (a new tensor unless already so stored).

        ``halved``: the matrix that a target sees whose fp8 ends at 240 (``halved_fp8.py``). Engram tables keep their
        range, since only the host reads them.
        """
        weight = self.tensor(f"{prefix}.weight")
        if weight.dtype not in (torch.float8_e4m3fn, torch.int8):
            return weight.to(dtype)
        scale = self.tensor(f"{prefix}.scale")
        if weight.dtype == torch.int8:
            return decode_fp4_weight(weight, scale, dtype)
        if prefix.endswith("engram.embed"):
            return decode_engram_rows(weight, scale, dtype)
        if halved:
            return decode_fp8_weight(halve_e4m3(weight), double_ue8m0(scale), dtype)
        return decode_fp8_weight(weight, scale, dtype)

    def engram_tables(self) -> EngramTables:
        """The hashing constants: from ``engram_tables.safetensors`` if present, else derived from the tokenizer."""
        path = self.directory / ENGRAM_TABLES_FILE
        if path.exists():
            return load_engram_tables(path, self.config)
        return build_engram_tables(self.config, token_map(self.directory / "tokenizer.json"))

    def close(self) -> None:
        """Forget the open files."""
        self._files.clear()

    def __enter__(self) -> Checkpoint:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stored(self, name: str) -> StoredTensor:
        if name not in self.tensors:
            raise CheckpointError(f"{name} is not a tensor of this model; `tiny check` lists those of {self.directory}")
        return self.tensors[name]


def open_checkpoint(directory: str | Path) -> Checkpoint:
    """Open a directory of safetensors shards with a config.json.

    Raises ConfigError for the config, and one CheckpointError that names every missing, unexpected, mis-shaped,
    mis-typed, truncated or wrongly indexed tensor, before any data is read.
    """
    directory = Path(directory)
    config = ModelConfig.from_directory(directory)
    faults: dict[str, str] = {}
    found = _canonical(read_directory(directory, faults.setdefault), faults.setdefault)
    expected = expected_tensors(config)
    if found:
        _compare(expected, found, faults.setdefault)
    if faults:
        headline = f"{directory} does not hold the tensors its config.json describes:"
        raise CheckpointError(fault_list(headline, [f"{name}: {fault}" for name, fault in faults.items()], _ADVICE))
    return Checkpoint(directory, config, {name: found[name] for name in expected})


def _canonical(stored: Mapping[str, StoredTensor], report: FaultReport) -> dict[str, StoredTensor]:
    found: dict[str, StoredTensor] = {}
    for name, tensor in stored.items():
        canonical = canonical_name(name)
        if canonical in found:
            report(canonical, f"stored twice, as {found[canonical].name} and as {name}")
        elif canonical is not None:
            found[canonical] = tensor
    return found


def _compare(expected: Mapping[str, TensorSpec], found: Mapping[str, StoredTensor], report: FaultReport) -> None:
    for name in found:
        if name not in expected:
            report(name, "unexpected")
    for name, spec in expected.items():
        if name not in found:
            report(name, "missing")
            continue
        actual = found[name].spec
        if actual != spec:
            report(name, f"stored as {_text(actual)}, expected {_text(spec)}")


def _text(spec: TensorSpec) -> str:
    return f"{name_of(spec.dtype)} {list(spec.shape)}"
