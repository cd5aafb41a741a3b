"""Compiled programs as entries: the payload is a file, its calling convention is metadata."""

from __future__ import annotations

from ...errors import ArtifactError, StoreMissError
from ..artifacts import Artifact, TensorType
from .entry import StoredEntry
from .key import PROGRAM
from .store import ArtifactStore, Made

COMPILER_LOG = "compiler-log.txt"
"""What the compiler said about it, if it is a program of its own."""


def made_program(artifact: Artifact, description: str) -> Made:
    """What to store of a program; ``description`` is for people who list the store."""
    metadata = {
        "description": description,
        "target": artifact.target,
        "inputs": [one.to_json() for one in artifact.inputs],
        "outputs": [one.to_json() for one in artifact.outputs],
        "aliases": sorted(artifact.aliases.items()),
        "runtime_zero": artifact.runtime_zero,
        "fingerprint": artifact.fingerprint,
    }
    log = {COMPILER_LOG: artifact.log.encode()} if artifact.log else {}
    return Made({PROGRAM: artifact.payload, **log}, metadata)


def program_of(entry: StoredEntry) -> Artifact:
    """The program in an entry, without the compiler's log; raises ArtifactError if it holds something else."""
    metadata = entry.manifest.metadata
    try:
        return Artifact(
            target=metadata["target"],
            payload=entry.read(PROGRAM),
            inputs=tuple(map(TensorType.from_json, metadata["inputs"])),
            outputs=tuple(map(TensorType.from_json, metadata["outputs"])),
            aliases=dict(metadata["aliases"]),
            runtime_zero=metadata["runtime_zero"],
            fingerprint=metadata["fingerprint"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"entry {entry.digest} of kind {entry.manifest.kind} is no program of this version "
            f"({type(error).__name__}: {error}); remove it with `deepinfer-neuron cache clear --kind {PROGRAM}`"
        ) from error


def find_program(store: ArtifactStore, digest: str) -> Artifact:
    """The program whose key has that digest, which a plan names; raises StoreMissError if the store has lost it."""
    entry = store.find(digest)
    if entry is None:
        raise StoreMissError(
            f"the stored plan needs program {digest[:12]}, which the store has lost (damaged or removed): "
            "compile again, which makes only what is missing"
        )
    return program_of(entry)
