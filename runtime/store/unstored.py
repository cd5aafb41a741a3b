"""An entry for its maker's own use, when the disk would not have it."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .entry import StoredEntry
from .key import ArtifactKey
from .manifest import FileRecord
from .publish import Source, all_files, make_manifest


def unstored_entry(key: ArtifactKey, files: Mapping[str, Source], metadata: Mapping[str, Any]) -> StoredEntry:
    """The entry in memory; files given by path stay where they are."""
    contents = {name: _content(source) for name, source in all_files(key, files).items()}
    records = {name: _record(content) for name, content in contents.items()}
    return StoredEntry(make_manifest(key, records, metadata), None, contents)


def _content(source: Source) -> bytes | Path:
    if isinstance(source, bytes | Path):
        return source
    buffer = io.BytesIO()
    source(buffer)
    return buffer.getvalue()


def _record(content: bytes | Path) -> FileRecord:
    if isinstance(content, bytes):
        return FileRecord(len(content), hashlib.sha256(content).hexdigest())
    with content.open("rb") as file:
        return FileRecord(content.stat().st_size, hashlib.file_digest(file, "sha256").hexdigest())
