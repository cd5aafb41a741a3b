"""Make one operation of several that compute the same: compilers do, and can fail because of it."""

from __future__ import annotations

from jaxlib.mlir import ir
from jaxlib.mlir.passmanager import PassManager

from ...compiler.lowering.context import shared_context
from .module_parts import bytecode, entry_of


def merged(module: bytes) -> bytes:
    """A module without operations that compute what an earlier one does, and without those that nothing reads.

    Where the entry function has none of either, the same bytes are returned.

    Args:
        module: as ``read_module`` returns it.
    """
    with shared_context():
        parsed = ir.Module.parse(module)
        before = len(entry_of(parsed).operations)
        PassManager.parse("builtin.module(cse)").run(parsed.operation)
        return bytecode(parsed) if len(entry_of(parsed).operations) < before else module
