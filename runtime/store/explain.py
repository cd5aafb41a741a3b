"""Why a key has no entry: the parts in which it differs from the nearest one, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import zip_longest
from typing import Any

from .canonical_json import canonical_json, plain
from .key import ArtifactKey
from .manifest import Manifest

_MISSING = object()
_LONGEST = 120

ReadText = Callable[[Manifest, str], str | None]
"""Gives a text of an entry's key, or None if it cannot be read."""


def nearest(key: ArtifactKey, manifests: Iterable[Manifest]) -> Manifest | None:
    """The entry of the same kind that differs in the fewest parts; among equals the youngest."""
    same_kind = [manifest for manifest in manifests if manifest.kind == key.kind]
    return min(same_kind, key=lambda one: (len(_differing(key, one)), -one.created), default=None)


def differences(key: ArtifactKey, manifest: Manifest, read_text: ReadText) -> list[str]:
    """One sentence for each difference between a key and that of an entry; empty if they are equal."""
    sentences = [] if key.kind == manifest.kind else [f"kind: {manifest.kind} there, {key.kind} here"]
    for name in sorted(set(key.parts) | set(manifest.parts)):
        there, here = manifest.parts.get(name, _MISSING), key.parts.get(name, _MISSING)
        sentences += _compare(name, there, here if here is _MISSING else plain(here))
    for name in sorted(set(key.texts) | set(manifest.texts)):
        if key.text_digests.get(name) != manifest.texts.get(name):
            sentences.append(_compare_texts(name, read_text(manifest, name), key.texts.get(name)))
    return sentences


def _differing(key: ArtifactKey, manifest: Manifest) -> list[str]:
    pairs = (key.parts, manifest.parts), (key.text_digests, manifest.texts)
    return [
        name
        for here, there in pairs
        for name in set(here) | set(there)
        if (name in here) != (name in there) or canonical_json(here[name]) != canonical_json(there[name])
    ]


def _compare(name: str, there: Any, here: Any) -> list[str]:
    if isinstance(there, Mapping) and isinstance(here, Mapping):
        names = sorted(set(there) | set(here))
        return [
            sentence
            for one in names
            for sentence in _compare(f"{name}, {one}", there.get(one, _MISSING), here.get(one, _MISSING))
        ]
    if isinstance(there, list) and isinstance(here, list) and len(there) == len(here):
        pairs = enumerate(zip(there, here, strict=True))
        return [sentence for index, pair in pairs for sentence in _compare(f"{name} {index}", *pair)]
    return [] if _shown(there) == _shown(here) else [f"{name}: {_cut(_shown(there))} there, {_cut(_shown(here))} here"]


def _compare_texts(name: str, there: str | None, here: str | None) -> str:
    if there is None or here is None:
        return f"{name}: only {'here' if there is None else 'there'}, or it cannot be read"
    lines = enumerate(zip_longest(there.splitlines(), here.splitlines(), fillvalue="nothing"), start=1)
    number, (old, new) = next((number, pair) for number, pair in lines if pair[0] != pair[1])
    return f"{name}, line {number}: {_cut(old)} there, {_cut(new)} here"


def _shown(value: Any) -> str:
    return "nothing" if value is _MISSING else canonical_json(value)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."
