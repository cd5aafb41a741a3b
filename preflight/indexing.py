"""Rules about gathers and scatters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from .module_view import ModuleView, element_of, is_integer, is_wide_integer, shape_of

_KEEPS_VALUES = frozenset({"stablehlo.reshape", "stablehlo.broadcast_in_dim", "stablehlo.convert"})

Hits = Iterator[tuple[Any, str]]


def gathers_beyond(view: ModuleView, target: str) -> Hits:
    """Gathers whose counted indices pass the end of their operand."""
    for operation in view.named("stablehlo.gather"):
        numbers = stablehlo.GatherDimensionNumbers(operation.attributes["dimension_numbers"])
        yield from _beyond(operation, numbers.start_index_map, numbers.index_vector_dim)


def scatters_beyond(view: ModuleView, target: str) -> Hits:
    """Scatters whose counted indices pass the end of their operand."""
    for operation in view.named("stablehlo.scatter"):
        numbers = stablehlo.ScatterDimensionNumbers(operation.attributes["scatter_dimension_numbers"])
        yield from _beyond(operation, numbers.scattered_dims_to_operand_dims, numbers.index_vector_dim)


def integer_scatters(view: ModuleView, target: str) -> Hits:
    """Scatters that compute with 32-bit or 64-bit integers."""
    for operation, element in _computing_scatters(view):
        if is_wide_integer(element):
            yield operation, f"combines {element} values"


def narrow_integer_scatters(view: ModuleView, target: str) -> Hits:
    """Scatters that compute with booleans or narrow integers."""
    for operation, element in _computing_scatters(view):
        if is_integer(element) and not is_wide_integer(element):
            yield operation, f"combines {element} values"


def _computing_scatters(view: ModuleView) -> Iterator[tuple[Any, str]]:
    """Scatters that return something else than the update, and the type of their operand."""
    for operation in view.named("stablehlo.scatter"):
        block = operation.regions[0].blocks[0]
        (returned,) = list(block.operations)[-1].operands
        if returned != block.arguments[len(block.arguments) // 2]:
            yield operation, element_of(operation.operands[0])


def _beyond(operation: Any, dimensions: Sequence[int], vector_dimension: int) -> Hits:
    operand, indices = operation.operands[0], operation.operands[1]
    for dimension, size in zip(dimensions, _counted(indices, len(dimensions), vector_dimension), strict=True):
        limit = shape_of(operand)[dimension]
        if size is not None and size > limit:
            yield operation, f"indices count to {size - 1}, and dimension {dimension} ends at {limit - 1}"


def _counted(indices: Any, length: int, vector_dimension: int) -> list[int | None]:
    """For each component of the index vectors: how far an iota counts that it comes from, or None."""
    if length == 1:
        return [_counted_size(indices)]
    owner = indices.owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.concatenate" or len(owner.operands) != length:
        return [None] * length
    if ir.IntegerAttr(owner.attributes["dimension"]).value != vector_dimension:
        return [None] * length
    return [_counted_size(one) for one in owner.operands]


def _counted_size(value: Any) -> int | None:
    owner = value.owner
    while not isinstance(owner, ir.Block) and owner.name in _KEEPS_VALUES:
        owner = owner.operands[0].owner
    if isinstance(owner, ir.Block) or owner.name != "stablehlo.iota":
        return None
    return shape_of(owner.results[0])[ir.IntegerAttr(owner.attributes["iota_dimension"]).value]
