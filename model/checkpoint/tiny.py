"""Makes a checkpoint with random weights in the exact layout of the release: `deepinfer-neuron tiny make`."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from ...errors import CheckpointError
from ...reporting import Count
from ..config import ModelConfig
from ..engram_hash import build_engram_tables
from .headers import INDEX_FILE
from .layout import TensorSpec, expected_tensors
from .loader import ENGRAM_TABLES_FILE
from .recipe import random_tensor
from .sizes import SIZES, config_json
from .tokenizer import real_tokenizer_file, token_map

_MARK = "made_by"
_MADE_BY = "deepinfer-neuron tiny make"
_SHARD_BYTES = {"tiny": 256 << 20, "nano": 1 << 20}
_TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")


def make_checkpoint(
    directory: str | Path,
    size: str = "tiny",
    seed: int = 0,
    overwrite: bool = False,
    on_bytes: Count = lambda _done, _total: None,
) -> Path:
    """Write a checkpoint and return its directory; the same size and seed give the same bytes.

    It appears whole under ``directory`` or not at all. Raises CheckpointError for an unknown size, and for a directory
    that is not empty unless ``overwrite`` is set and an earlier call made it. ``on_bytes(done, total)`` follows
    the tensor data written.
    """
    if size not in SIZES:
        raise CheckpointError(f"unknown checkpoint size {size!r}; expected one of {', '.join(SIZES)}")
    raw = config_json(size) | {_MARK: {"command": _MADE_BY, "size": size, "seed": seed}}
    write_vocabulary = _write_tokenizer if size == "tiny" else _write_engram_tables
    directory = Path(directory)
    _refuse_to_destroy(directory, overwrite)
    _publish(directory, raw, seed, write_vocabulary, _SHARD_BYTES[size], on_bytes)
    return directory


def make_checkpoint_of(directory: str | Path, raw: dict[str, Any], seed: int = 0) -> Path:
    """Write a checkpoint of any ``config.json`` to a new or empty directory, without a tokenizer, and return it.

    Raises CheckpointError for a directory that is not empty, and what ModelConfig raises for a wrong ``raw``.
    """
    directory = Path(directory)
    _refuse_to_destroy(directory, overwrite=False)
    _publish(directory, raw, seed, _write_engram_tables, _SHARD_BYTES["nano"])
    return directory


def size_of(directory: str | Path) -> str | None:
    """The size that ``make_checkpoint`` made a checkpoint in; None for any other checkpoint, or none."""
    try:
        return json.loads((Path(directory) / "config.json").read_text())[_MARK]["size"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _publish(
    directory: Path,
    raw: dict[str, Any],
    seed: int,
    write_vocabulary: Callable[[Path, ModelConfig], None],
    shard_bytes: int,
    on_bytes: Count = lambda _done, _total: None,
) -> None:
    with _published(directory) as staging:
        (staging / "config.json").write_text(json.dumps(raw, indent=2) + "\n")
        config = ModelConfig.from_dict(raw, "config.json")
        write_vocabulary(staging, config)
        _write_tensors(staging, expected_tensors(config), seed, shard_bytes, on_bytes)


def _write_tokenizer(staging: Path, config: ModelConfig) -> None:
    """The real tokenizer; that it fits the Engram tables is checked."""
    for name in _TOKENIZER_FILES:
        shutil.copyfile(real_tokenizer_file(name), staging / name)
    build_engram_tables(config, token_map(staging / "tokenizer.json"))


def _write_engram_tables(staging: Path, config: ModelConfig) -> None:
    """No text, only tables over a made-up compression."""
    compressed = torch.arange(config.vocab_size) * config.engram_compressed_vocab_size // config.vocab_size
    build_engram_tables(config, compressed).save(staging / ENGRAM_TABLES_FILE)


def _write_tensors(
    staging: Path,
    specs: Mapping[str, TensorSpec],
    seed: int,
    shard_bytes: int,
    on_bytes: Count,
) -> None:
    shards = _shards(specs, shard_bytes)
    total = sum(spec.nbytes for spec in specs.values())
    weight_map: dict[str, str] = {}
    done = 0
    for number, names in enumerate(shards, start=1):
        file = f"model-{number:05}-of-{len(shards):05}.safetensors"
        tensors = {}
        for name in names:
            tensors[name] = random_tensor(name, specs, seed)
            done += specs[name].nbytes
            on_bytes(done, total)
        save_file(tensors, str(staging / file), metadata={"format": "pt"})
        weight_map |= dict.fromkeys(names, file)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (staging / INDEX_FILE).write_text(json.dumps(index, indent=1) + "\n")


def _shards(specs: Mapping[str, TensorSpec], limit: int) -> list[list[str]]:
    """Names in layout order, cut so that no shard exceeds ``limit`` bytes unless it is a single tensor."""
    shards: list[list[str]] = [[]]
    filled = 0
    for name, spec in specs.items():
        if shards[-1] and filled + spec.nbytes > limit:
            shards.append([])
            filled = 0
        shards[-1].append(name)
        filled += spec.nbytes
    return shards


def _refuse_to_destroy(directory: Path, overwrite: bool) -> None:
    if directory.exists() and not directory.is_dir():
        raise CheckpointError(f"{directory} is a file; name a new or empty directory")
    if not directory.exists() or not any(directory.iterdir()):
        return
    if not _made_by_us(directory):
        raise CheckpointError(f"{directory} holds files that `tiny make` did not write; name a new or empty directory")
    if not overwrite:
        raise CheckpointError(f"{directory} already holds a made checkpoint; pass --overwrite to replace it")


def _made_by_us(directory: Path) -> bool:
    try:
        raw: Any = json.loads((directory / "config.json").read_text())
        return raw[_MARK]["command"] == _MADE_BY
    except (OSError, ValueError, KeyError, TypeError):
        return False


@contextmanager
def _published(directory: Path) -> Iterator[Path]:
    """A staging directory that takes the target's place at the end; an exception leaves the target as it was."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    staging, replaced = work / "new", work / "replaced"
    staging.mkdir()
    try:
        yield staging
        if directory.exists():
            directory.rename(replaced)
        staging.rename(directory)
    finally:
        if replaced.exists() and not directory.exists():
            replaced.rename(directory)
        shutil.rmtree(work)
