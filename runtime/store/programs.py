"""Compiled programs as entries: the payload is a file, its calling convention is metadata."""

from __future__ import annotations

from typing import Any

import torch

from ...errors import ArtifactError
from ..artifacts import Artifact, TensorType
from .entry import Entry
from .store import Made

PROGRAM = "program"
"""Kind of an entry that holds a compiled program, and name of its payload."""

COMPILER_LOG = "compiler-log.txt"
"""What the compiler said about it, if it is a program of its own."""


def made_program(artifact: Artifact, description: str) -> Made:
    """What to store of a program; ``description`` is for people who list the store."""
    metadata = {
        "description": description,
        "target": artifact.target,
        "inputs": [_type_to_json(one) for one in artifact.inputs],
        "outputs": [_type_to_json(one) for one in artifact.outputs],
        "aliases": sorted(artifact.aliases.items()),
        "runtime_zero": artifact.runtime_zero,
        "fingerprint": artifact.fingerprint,
    }
    log = {COMPILER_LOG: artifact.log.encode()} if artifact.log else {}
    return Made({PROGRAM: artifact.payload, **log}, metadata)


def program_of(entry: Entry) -> Artifact:
    """The program in an entry, without the compiler's log; raises ArtifactError if it holds something else."""
    metadata = entry.manifest.metadata
    try:
        return Artifact(
            target=metadata["target"],
            payload=entry.read(PROGRAM),
            inputs=tuple(map(_type_from_json, metadata["inputs"])),
            outputs=tuple(map(_type_from_json, metadata["outputs"])),
            aliases=dict(metadata["aliases"]),
            runtime_zero=metadata["runtime_zero"],
            fingerprint=metadata["fingerprint"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactError(
            f"entry {entry.digest} of kind {entry.manifest.kind} is no program of this version "
            f"({type(error).__name__}: {error}); remove it with `deepinfer-neuron cache clear --kind {PROGRAM}`"
        ) from error


def _type_to_json(one: TensorType) -> dict[str, Any]:
    return {"dtype": str(one.dtype).removeprefix("torch."), "shape": list(one.shape)}


def _type_from_json(data: dict[str, Any]) -> TensorType:
    dtype = getattr(torch, data["dtype"])
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{data['dtype']!r} is no dtype")
    return TensorType(dtype, tuple(data["shape"]))
