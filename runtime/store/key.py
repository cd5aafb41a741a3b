"""What an entry is stored under: named parts, and one digest of them all."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from .canonical_json import canonical_json

PROGRAM = "program"
"""Kind of an entry that holds a compiled program, and name of its payload."""

SCHEMA = 1
"""Part of every key and manifest: entries of another schema are never found."""


@dataclass(frozen=True)
class ArtifactKey:
    """Everything that can change the content of an entry, and nothing that cannot.

    Attributes:
        kind: what the entry is, such as "program", "plan" or "weights".
        parts: JSON values by name.
        texts: long texts by name. Only their digests enter the key; the texts are kept as files of the entry, so that
            two keys can be compared line by line.

    Raises:
        ArtifactError: ``digest`` of parts that are no JSON values.
    """

    kind: str
    parts: Mapping[str, Any]
    texts: Mapping[str, str] = field(default_factory=dict)

    @property
    def text_digests(self) -> dict[str, str]:
        """sha256 of each text."""
        return {name: hashlib.sha256(text.encode()).hexdigest() for name, text in self.texts.items()}

    @cached_property
    def digest(self) -> str:
        """64 hexadecimal digits, equal in every process and on every machine for equal parts."""
        return key_digest(self.kind, self.parts, self.text_digests)


def key_digest(kind: str, parts: Mapping[str, Any], text_digests: Mapping[str, str]) -> str:
    """sha256 of the canonical JSON of a key; raises ArtifactError for parts that are no JSON values."""
    content = {"schema": SCHEMA, "kind": kind, "parts": parts, "texts": text_digests}
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()


def text_file(name: str) -> str:
    """Name of the file that keeps a text of the key."""
    return f"key-{name}.txt"
