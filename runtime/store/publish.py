"""An entry appears whole or not at all: it is written beside the entries, synced, and moved in by one rename."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from .key import ArtifactKey, text_file
from .layout import StoreLayout
from .manifest import MANIFEST, FileRecord, Manifest, check_name

Source = bytes | Path | Callable[[BinaryIO], None]
"""Content of a file: bytes, a file to copy, or a function that writes to an open file."""

_TAKEN = {errno.EEXIST, errno.ENOTEMPTY}


@contextmanager
def new_stage(layout: StoreLayout) -> Iterator[Path]:
    """A directory that is gone after the block unless it was published."""
    stage = layout.new_stage()
    layout.root.mkdir(parents=True, exist_ok=True)
    stage.mkdir()
    try:
        yield stage
    finally:
        shutil.rmtree(stage, ignore_errors=True)


def write_entry(stage: Path, key: ArtifactKey, files: Mapping[str, Source], metadata: Mapping[str, Any]) -> Manifest:
    """Write an entry's files and manifest to a stage.

    Raises:
        ArtifactError: a file has an unsafe name, or the metadata is no JSON.
        OSError: the store cannot be written.
    """
    records = {name: write_file(stage / name, source) for name, source in all_files(key, files).items()}
    manifest = make_manifest(key, records, metadata)
    write_file(stage / MANIFEST, manifest.to_bytes())
    return manifest


def all_files(key: ArtifactKey, files: Mapping[str, Source]) -> dict[str, Source]:
    """The files and the texts of the key; raises ArtifactError for an unsafe name."""
    everything = {**files, **{text_file(name): text.encode() for name, text in key.texts.items()}}
    for name in everything:
        check_name(name)
    return everything


def make_manifest(key: ArtifactKey, records: Mapping[str, FileRecord], metadata: Mapping[str, Any]) -> Manifest:
    """The manifest of an entry that is made now."""
    return Manifest(key.kind, key.parts, key.text_digests, records, metadata, time.time())


def write_file(path: Path, source: Source) -> FileRecord:
    """Write a new file through to the disk."""
    with path.open("x+b") as file:
        if isinstance(source, bytes):
            file.write(source)
        elif isinstance(source, Path):
            with source.open("rb") as original:
                shutil.copyfileobj(original, file, 1 << 20)
        else:
            source(file)
        file.flush()
        os.fsync(file.fileno())
        file.seek(0)
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        return FileRecord(file.tell(), sha256)


def publish(stage: Path, destination: Path) -> bool:
    """Move a complete stage to its place; False if another process was first.

    Raises:
        OSError: the store cannot be written.
    """
    _sync_directory(stage)
    destination.parent.mkdir(parents=True, exist_ok=True)
    try:
        stage.rename(destination)
    except OSError as error:
        if error.errno in _TAKEN:
            return False
        raise
    _sync_directory(destination.parent)
    return True


def replace_file(path: Path, data: bytes, layout: StoreLayout) -> None:
    """Write a small file whole or not at all, over an older one."""
    with new_stage(layout) as stage:
        write_file(stage / path.name, data)
        path.parent.mkdir(parents=True, exist_ok=True)
        (stage / path.name).replace(path)


def _sync_directory(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
