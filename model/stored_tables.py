"""The engram constants of a checkpoint, derived from its tokenizer once and kept in a store."""

from __future__ import annotations

import hashlib
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from ..runtime.sources import source_digests
from ..runtime.store.key import ArtifactKey
from ..runtime.store.store import ArtifactStore, Made
from .checkpoint.loader import ENGRAM_TABLES_FILE, Checkpoint
from .engram_hash import EngramTables, load_engram_tables

ENGRAM_TABLES = "engram-tables"
"""Kind of the entries."""


def stored_engram_tables(checkpoint: Checkpoint, store: ArtifactStore) -> EngramTables:
    """The checkpoint's own tables, or those of the store; a real tokenizer takes a second to derive them from.

    Raises CheckpointError as ``Checkpoint.engram_tables``.
    """
    if (checkpoint.directory / ENGRAM_TABLES_FILE).exists():
        return checkpoint.engram_tables()
    made: list[EngramTables] = []

    def make() -> Made:
        made.append(checkpoint.engram_tables())
        return Made({ENGRAM_TABLES_FILE: _file_content(made[0])}, {"description": "constants of the n-gram hash"})

    entry, _ = store.get_or_make(_key(checkpoint), make)
    return made[0] if made else load_engram_tables(entry.path(ENGRAM_TABLES_FILE), checkpoint.config)


def _key(checkpoint: Checkpoint) -> ArtifactKey:
    config = asdict(checkpoint.config)
    del config["raw"]
    tokenizer = (checkpoint.directory / "tokenizer.json").read_bytes()
    parts = {
        "config": config,
        "tokenizer": hashlib.sha256(tokenizer).hexdigest(),
        "sources": source_digests(f"{__package__}.engram_hash", f"{__package__}.checkpoint.tokenizer"),
    }
    return ArtifactKey(ENGRAM_TABLES, parts)


def _file_content(tables: EngramTables) -> bytes:
    with TemporaryDirectory() as directory:
        path = Path(directory) / ENGRAM_TABLES_FILE
        tables.save(path)
        return path.read_bytes()
