from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.runtime.store.manifest import FileRecord, Manifest, check_name

MANIFEST = Manifest(
    kind="plan",
    parts={"sizes": [1, 2]},
    texts={"graph": "0" * 64},
    files={"plan": FileRecord(3, "a" * 64)},
    metadata={"description": "layer 3"},
    created=12.5,
)


def checked(text: bytes) -> bytes:
    return text + b"\n" + hashlib.sha256(text).hexdigest().encode() + b"\n"


def test_a_manifest_comes_back() -> None:
    assert Manifest.from_bytes(MANIFEST.to_bytes()) == MANIFEST


def test_a_changed_bit_is_noticed() -> None:
    data = MANIFEST.to_bytes()
    for bit in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        with pytest.raises(ArtifactError):
            Manifest.from_bytes(bytes(flipped))


def test_a_truncated_or_longer_manifest_is_noticed() -> None:
    data = MANIFEST.to_bytes()
    for end in range(len(data)):
        with pytest.raises(ArtifactError):
            Manifest.from_bytes(data[:end])
    with pytest.raises(ArtifactError):
        Manifest.from_bytes(data + b"\n")


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        MANIFEST.to_bytes().partition(b"\n")[0].replace(b'"schema":1', b'"schema":2'),
        MANIFEST.to_bytes().partition(b"\n")[0].replace(b'"created":12.5', b'"created":"now"'),
        MANIFEST.to_bytes().partition(b"\n")[0].replace(b'"size":3', b'"size":-3'),
        MANIFEST.to_bytes().partition(b"\n")[0].replace(b'"size":3', b'"length":3'),
        MANIFEST.to_bytes().partition(b"\n")[0].replace(b'"sizes":[1,2]', b'"sizes":[1,2],"x":[').replace(b"[}", b"["),
    ],
)
def test_what_is_no_manifest_is_refused_even_with_a_right_checksum(text: bytes) -> None:
    with pytest.raises(ArtifactError):
        Manifest.from_bytes(checked(text))


@pytest.mark.parametrize("name", ["../x", "/etc/passwd", "a/b", "..", ".hidden", "", "manifest.json", "a\n", "a" * 129])
def test_unsafe_names_are_refused(name: str) -> None:
    with pytest.raises(ArtifactError):
        check_name(name)
    with pytest.raises(ArtifactError):
        Manifest.from_bytes(replace(MANIFEST, files={name: FileRecord(3, "a" * 64)}).to_bytes())
