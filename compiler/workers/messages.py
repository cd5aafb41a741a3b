"""What goes between a compiling process and its workers: lines of JSON, and modules as they are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO

from ...runtime.artifacts import TensorType
from ...runtime.store.key import ArtifactKey
from ...runtime.store.store import Outcome
from ..lowering.lower import LoweredModule


@dataclass(frozen=True)
class Job:
    """A module to compile, the key that the program is stored under, and what people call it."""

    name: str
    key: ArtifactKey
    module: LoweredModule


@dataclass(frozen=True)
class Answer:
    """What came of a job.

    Attributes:
        outcome: how the store came by the program; None if it did not.
        seconds: that it took.
        bytes: size of the program.
        error: why there is none; empty if there is one.
        has_crashed: whether the compiler ended its process by a fault, as it would again.
    """

    outcome: Outcome | None
    seconds: float
    bytes: int = 0
    error: str = ""
    has_crashed: bool = False


def send_job(file: BinaryIO, job: Job) -> None:
    """Write a job; raises OSError if nobody reads any more."""
    module = job.module
    header = {
        "name": job.name,
        "key": asdict(job.key),
        "inputs": [one.to_json() for one in module.inputs],
        "outputs": [one.to_json() for one in module.outputs],
        "aliases": sorted(module.aliases.items()),
        "runtime_zero": module.runtime_zero,
        "operator_counts": dict(module.operator_counts),
        "bytes": len(module.bytecode),
        "files": [[name, len(content)] for name, content in module.files.items()],
    }
    _send_line(file, header)
    file.write(module.bytecode)
    file.writelines(module.files.values())
    file.flush()


def receive_job(file: BinaryIO) -> Job | None:
    """The next job; None if there will be no more, or it is cut short."""
    header = _receive_line(file)
    if header is None:
        return None
    bytecode = file.read(header["bytes"])
    files = {name: file.read(size) for name, size in header["files"]}
    if len(bytecode) < header["bytes"] or any(len(files[name]) < size for name, size in header["files"]):
        return None
    module = LoweredModule(
        bytecode=bytecode,
        inputs=tuple(map(TensorType.from_json, header["inputs"])),
        outputs=tuple(map(TensorType.from_json, header["outputs"])),
        aliases=dict(header["aliases"]),
        runtime_zero=header["runtime_zero"],
        operator_counts=header["operator_counts"],
        files=files,
    )
    return Job(header["name"], ArtifactKey(**header["key"]), module)


def send_answer(file: BinaryIO, answer: Answer) -> None:
    """Write an answer; raises OSError if nobody reads any more."""
    _send_line(file, asdict(answer))
    file.flush()


def receive_answer(file: BinaryIO) -> Answer | None:
    """The next answer; None if the worker ended instead."""
    content = _receive_line(file)
    return None if content is None else Answer(**content)


def _send_line(file: BinaryIO, content: Mapping[str, Any]) -> None:
    file.write(json.dumps(content).encode() + b"\n")


def _receive_line(file: BinaryIO) -> dict[str, Any] | None:
    line = file.readline()
    return json.loads(line) if line.endswith(b"\n") else None
