"""What a failed compilation leaves behind: the graph, its module, and what the compiler said of it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import ArtifactError
from ..graphs.graph_file import SavedGraph, graph_from_text, graph_to_text

SCHEMA = 1
"""Counts changes of what a bundle means."""

BUNDLE, GRAPH, MODULE, LOG = "bundle.json", "graph.json", "module.mlir", "compiler-log.txt"
"""Files of a bundle: its description, the graph, the module as StableHLO bytecode, the compiler's output."""

_KIND = "deepinfer-neuron failure"
_CHECKED = (GRAPH, MODULE, LOG)


@dataclass(frozen=True)
class Bundle:
    """A compilation that failed.

    Attributes:
        graph: of the region, with its name, target and numerics.
        module: that the compiler was given, as StableHLO bytecode with the model's lines.
        batch_size: requests of the step; None if it is not known.
        fingerprint: version, flags and module format of the compiler.
        signature: the first line of the error.
        error: in full, with the compiler's command.
        log: everything that the compiler said, if it is a program of its own.
    """

    graph: SavedGraph
    module: bytes
    batch_size: int | None
    fingerprint: str
    signature: str
    error: str
    log: str = ""


def bundle_files(bundle: Bundle) -> dict[str, bytes]:
    """The files of a bundle by name; raises GraphError if the graph cannot be saved."""
    graph = bundle.graph
    files = {GRAPH: graph_to_text(graph).encode(), MODULE: bundle.module, LOG: bundle.log.encode()}
    description = {
        "kind": _KIND,
        "schema": SCHEMA,
        "region": graph.name,
        "target": graph.target,
        "batch_size": bundle.batch_size,
        "numerics": graph.numerics,
        "fingerprint": bundle.fingerprint,
        "signature": bundle.signature,
        "error": bundle.error,
        "versions": dict(graph.versions),
        "sha256": {name: hashlib.sha256(files[name]).hexdigest() for name in _CHECKED},
    }
    return {BUNDLE: f"{json.dumps(description, indent=1)}\n".encode(), **files}


def read_bundle(path: Path) -> Bundle:
    """The bundle in a directory, which its ``bundle.json`` may stand for.

    Raises:
        ArtifactError: it is damaged or of another schema, or its graph calls an operator that is not registered here.
        OSError: it cannot be read.
    """
    directory = path.parent if path.name == BUNDLE else path
    description = _description(directory)
    try:
        files = {name: (directory / name).read_bytes() for name in _CHECKED}
    except FileNotFoundError as error:
        raise ArtifactError(
            f"{directory} has lost {Path(error.filename).name}: compile again to have it anew"
        ) from error
    for name, content in files.items():
        if hashlib.sha256(content).hexdigest() != description["sha256"].get(name):
            raise ArtifactError(f"{directory / name} is damaged: compile again to have it anew")
    return Bundle(
        graph=graph_from_text(files[GRAPH].decode(), str(directory / GRAPH)),
        module=files[MODULE],
        batch_size=description["batch_size"],
        fingerprint=description["fingerprint"],
        signature=description["signature"],
        error=description["error"],
        log=files[LOG].decode(errors="replace"),
    )


def _description(directory: Path) -> Mapping[str, Any]:
    path = directory / BUNDLE
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ArtifactError(f"{directory} is no bundle of a failed compilation: it has no {BUNDLE}") from error
    except ValueError as error:
        raise ArtifactError(f"{path} is damaged: {error}; compile again to have it anew") from error
    if not isinstance(content, dict) or content.get("kind") != _KIND:
        raise ArtifactError(f"{path} describes no failed compilation: expected a JSON object of kind {_KIND!r}")
    if content.get("schema") != SCHEMA:
        raise ArtifactError(f"{path} has schema {content.get('schema')!r}, and this version reads {SCHEMA}")
    texts = all(isinstance(content.get(name), str) for name in ("fingerprint", "signature", "error"))
    sizes = content.get("batch_size") is None or type(content["batch_size"]) is int
    if not (texts and sizes and isinstance(content.get("sha256"), dict)):
        raise ArtifactError(f"{path} is damaged: a field is missing or of another type; compile again to have it anew")
    return content
