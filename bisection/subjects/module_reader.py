"""StableHLO from a file of any form that compilers take, recognised by its content."""

from __future__ import annotations

from pathlib import Path

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from ...compiler.hlo.read import stablehlo_of
from ...compiler.lowering.context import shared_context
from ...errors import ArtifactError
from .module_parts import ENTRY, bytecode, functions_of, is_public

_BYTECODE = b"ML\xefR"
_PORTABLE_PRODUCER = b"StableHLO_v"
"""Written after the magic number and one byte for the version of the encoding."""

_FORMS = "MLIR text or bytecode of StableHLO, a portable artifact of StableHLO, or an HLO module proto"


def read_module(source: bytes | Path) -> bytes:
    """A module whose entry function is ``main``, as StableHLO bytecode.

    The only public function is the entry, whatever its name is; of several it is ``main``.

    Args:
        source: MLIR text or bytecode, a portable artifact, or an HLO module proto; a path of a file with one of them.

    Raises:
        ArtifactError: the file cannot be read, holds something else or something damaged, or has no entry.
    """
    name = "the module" if isinstance(source, bytes) else f"{source}"
    try:
        content = source if isinstance(source, bytes) else source.read_bytes()
    except OSError as error:
        raise ArtifactError(f"{name} cannot be read: {error.strerror}; expected a file with {_FORMS}") from error
    with shared_context():
        try:
            module = _parsed(content)
            is_renamed = _name_entry(module)
            module.operation.verify()
        except (ArtifactError, ir.MLIRError, ValueError) as error:
            raise ArtifactError(f"{name} cannot be used: {error}; expected {_FORMS}") from error
        is_bytecode = content.startswith(_BYTECODE) and not _is_portable(content)
        return content if is_bytecode and not is_renamed else bytecode(module)


def _parsed(content: bytes) -> ir.Module:
    if _is_portable(content):
        return stablehlo.deserialize_portable_artifact(shared_context(), content)
    if content.startswith(_BYTECODE):
        return ir.Module.parse(content)
    if not content.strip():
        raise ArtifactError("it is empty")
    text = _text(content)
    return ir.Module.parse(stablehlo_of(content) if text is None else text)


def _is_portable(content: bytes) -> bool:
    return content.startswith(_BYTECODE) and content[len(_BYTECODE) + 1 :].startswith(_PORTABLE_PRODUCER)


def _text(content: bytes) -> str | None:
    """The content as text; None if it is none. Lengths and tags of a proto are control characters."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return None
    if any(character < " " and not character.isspace() for character in text):
        return None
    if text.lstrip().startswith("HloModule"):
        raise ArtifactError("it is an HLO module as text: write it as a proto")
    return text


def _name_entry(module: ir.Module) -> bool:
    """Make the entry function the one named ``main``; whether that changed its name."""
    functions = functions_of(module)
    public = [name for name, function in functions.items() if is_public(function)]
    name = ENTRY if ENTRY in public else public[0] if len(public) == 1 else None
    if name is None:
        raise ArtifactError(f"it has the public functions {public}, and none of them is main: make all but one private")
    blocks = len(functions[name].regions[0].blocks)
    if blocks != 1:
        raise ArtifactError(f"its function {name} has {blocks} blocks: one was expected")
    if name == ENTRY:
        return False
    if ENTRY in functions:
        raise ArtifactError(f"its entry is {name}, and another function is named main: rename that one")
    ir.SymbolTable.replace_all_symbol_uses(name, ENTRY, module.operation)
    ir.SymbolTable.set_symbol_name(functions[name], ENTRY)
    return True
