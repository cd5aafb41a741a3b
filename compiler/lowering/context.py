"""The MLIR context with the dialects that a lowered module uses."""

from __future__ import annotations

from functools import cache

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, stablehlo


@cache
def shared_context() -> ir.Context:
    """The context of this process, which knows func, CHLO and StableHLO; loading these takes longer than a region."""
    context = ir.Context()
    registry = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(registry)
    context.append_dialect_registry(registry)
    context.load_all_available_dialects()
    chlo.register_dialect(context)
    stablehlo.register_dialect(context)
    return context
