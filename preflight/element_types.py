"""Rules about element types and shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jaxlib.mlir import ir

from ..passes.target_facts import facts_of
from .module_view import ModuleView, element_of, tensor_types
from .rule import Check

_LARGEST_UNSIGNED_32 = 2**32 - 1

Hits = Iterator[tuple[Any, str]]


def has_element(matches: Callable[[str], object]) -> Check:
    """Finds where values of an element type come from: operations that take none of them, and the entry function."""

    def check(view: ModuleView, target: str) -> Hits:
        for operation, type in _origins(view, lambda type: bool(matches(str(type.element_type)))):
            yield operation, f"makes {type.element_type} values"

    return check


def dynamic_shapes(view: ModuleView, target: str) -> Hits:
    """Dimensions that are only known at run time."""
    for operation, type in _origins(view, lambda type: not type.has_static_shape):
        yield operation, f"makes {type}, which has no fixed size"


def _origins(view: ModuleView, matches: Callable[[ir.RankedTensorType], bool]) -> Iterator[tuple[Any, Any]]:
    main = view.main
    for operation in view.operations:
        taken, made = tensor_types(operation.operands), tensor_types(operation.results)
        if operation == main:
            made = tensor_types(operation.regions[0].blocks[0].arguments)
        found = next(filter(matches, made), None)
        if found is not None and not any(map(matches, taken)):
            yield operation, found


def wide_integers(view: ModuleView, target: str) -> Hits:
    """64-bit integers on a target whose compiler narrows them."""
    if not facts_of(target).has_int64:
        yield from has_element(lambda element: element in ("i64", "ui64"))(view, target)


def large_constants(view: ModuleView, target: str) -> Hits:
    """Unsigned 64-bit literals beyond 32 bits."""
    for operation in view.named("stablehlo.constant"):
        value = operation.attributes["value"]
        if element_of(operation.results[0]) == "ui64" and _largest(value) > _LARGEST_UNSIGNED_32:
            yield operation, f"holds {_largest(value)}, which does not fit 32 bits"


def _largest(value: ir.Attribute) -> int:
    elements: Any = ir.DenseIntElementsAttr(value)
    return int(elements.get_splat_value().value) if elements.is_splat else max(map(int, elements))
