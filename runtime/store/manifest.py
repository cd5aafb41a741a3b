"""The table of contents of an entry, which says how to tell whether it is whole."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from ...errors import ArtifactError
from .canonical_json import canonical_json
from .key import SCHEMA, key_digest

MANIFEST = "manifest.json"

_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_FIELDS = {"schema", "kind", "parts", "texts", "files", "metadata", "created"}


@dataclass(frozen=True)
class FileRecord:
    """Size in bytes and sha256 of one file."""

    size: int
    sha256: str


@dataclass(frozen=True)
class Manifest:
    """What an entry holds and what it was made from.

    Attributes:
        kind: of the key.
        parts: of the key.
        texts: sha256 of each text of the key.
        files: every file of the entry besides the manifest.
        metadata: JSON values for whoever reads the entry; no part of the key.
        created: seconds since 1970, by the clock of the machine that made it.
    """

    kind: str
    parts: Mapping[str, Any]
    texts: Mapping[str, str]
    files: Mapping[str, FileRecord]
    metadata: Mapping[str, Any]
    created: float

    @cached_property
    def digest(self) -> str:
        """The digest of the key that the entry belongs to."""
        return key_digest(self.kind, self.parts, self.texts)

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(record.size for record in self.files.values())

    def to_bytes(self) -> bytes:
        """Canonical JSON, with the sha256 of itself as its last line."""
        text = canonical_json({"schema": SCHEMA} | asdict(self))
        return f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n".encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Manifest:
        """The manifest that ``to_bytes`` wrote; raises ArtifactError if a single bit of it changed."""
        text, _, checksum = data.partition(b"\n")
        if checksum != f"{hashlib.sha256(text).hexdigest()}\n".encode():
            raise ArtifactError("the manifest does not match its own checksum")
        try:
            content = json.loads(text)
        except ValueError as error:
            raise ArtifactError(f"the manifest is no JSON: {error}") from error
        if not isinstance(content, dict) or set(content) != _FIELDS or content.pop("schema") != SCHEMA:
            raise ArtifactError(f"the manifest is not of schema {SCHEMA}")
        try:
            files = {name: FileRecord(**record) for name, record in content.pop("files").items()}
            manifest = cls(files=files, **content)
        except (AttributeError, TypeError) as error:
            raise ArtifactError(f"the manifest is incomplete: {error}") from error
        _check(manifest)
        return manifest


def check_name(name: str) -> None:
    """Raise ArtifactError unless ``name`` is a plain file name that means the same everywhere."""
    if not _SAFE_NAME.fullmatch(name) or name == MANIFEST:
        raise ArtifactError(
            f"{name!r}: name files of an entry by letters, digits, dots, dashes and underscores, and not {MANIFEST}"
        )


def _check(manifest: Manifest) -> None:
    mappings = manifest.parts, manifest.texts, manifest.metadata
    if not isinstance(manifest.kind, str) or not all(isinstance(one, dict) for one in mappings):
        raise ArtifactError("the manifest has values of the wrong type")
    if type(manifest.created) not in (int, float):
        raise ArtifactError(f"the manifest was created at {manifest.created!r}, which is no time")
    for name, record in manifest.files.items():
        check_name(name)
        if type(record.size) is not int or record.size < 0 or not _SHA256.fullmatch(str(record.sha256)):
            raise ArtifactError(f"the manifest describes {name} as {record}")
