"""How a compiler is started on a file, and what counts as the failure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

Match = Literal["signature", "code", "any"]
"""What has to be the same of a failure: everything, outcome and code, or that it is one."""


@dataclass(frozen=True)
class Recipe:
    """Everything but the module that a compiler needs.

    Attributes:
        command: words, in which ``{input}`` and ``{output}`` stand for the names of the two files.
        input_name, output_name: of files in the directory that the compiler is started in.
        module: what ``input_name`` holds: the minimal program in the compiler's format.
        format: name of that format, for people.
        log_name: file in which the compiler says more than it prints; empty if there is none.
        environment: variables besides those there are.
        seconds, memory_bytes: after which a run is killed; None for no limit.
        match: what has to be the same of a failure.
    """

    command: Sequence[str]
    input_name: str
    output_name: str
    module: bytes
    format: str = "mlir"
    log_name: str = ""
    environment: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    memory_bytes: int | None = None
    match: Match = "signature"
