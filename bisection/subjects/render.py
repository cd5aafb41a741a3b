"""A candidate in the formats that compilers read."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

from jaxlib.mlir import ir

from ...compiler.hlo.convert import portable_artifact, write_bytecode
from ...compiler.lowering.context import shared_context
from ...compiler.targets.command import Format
from ...errors import ConfigError
from .graph_python import graph_python
from .subject import Candidate

FORMATS: tuple[Format, ...] = get_args(Format)


def render(candidate: Candidate, format: Format) -> bytes:
    """The bytes of ``candidate`` in ``format``: equal for equal candidates.

    Bytecode, text and proto say which results take over the memory of which inputs, as neuronx-cc reads it.

    Raises:
        LoweringError: the module has no such form.
        ConfigError: ``python``, and the candidate was not made from an FX graph.
    """
    return _WRITERS[format](candidate)


def _text(candidate: Candidate) -> bytes:
    with shared_context():
        module = ir.Module.parse(write_bytecode(candidate.module, "mlir"))
        return f"{module.operation.get_asm(enable_debug_info=True)}\n".encode()


def _python(candidate: Candidate) -> bytes:
    if candidate.graph is None:
        raise ConfigError("format python needs an FX graph, and a StableHLO module is bisected: choose another format")
    return graph_python(candidate.graph).encode()


_WRITERS: dict[Format, Callable[[Candidate], bytes]] = {
    "mlir": lambda candidate: write_bytecode(candidate.module, "mlir"),
    "text": _text,
    "portable": lambda candidate: portable_artifact(candidate.module),
    "hlo": lambda candidate: write_bytecode(candidate.module, "hlo"),
    "python": _python,
}
