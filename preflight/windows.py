"""Rules about convolutions and window reductions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from jaxlib.mlir import ir

from .module_view import ModuleView

Hits = Iterator[tuple[Any, str]]


def two_dilations(view: ModuleView, target: str) -> Hits:
    """Convolutions that dilate input and kernel."""
    for operation in view.named("stablehlo.convolution"):
        if _exceeds_one(operation, "lhs_dilation") and _exceeds_one(operation, "rhs_dilation"):
            yield operation, "dilates input and kernel"


def strided_dilation(view: ModuleView, target: str) -> Hits:
    """Convolutions with strides and a dilated input."""
    for operation in view.named("stablehlo.convolution"):
        if _exceeds_one(operation, "window_strides") and _exceeds_one(operation, "lhs_dilation"):
            yield operation, "has strides and a dilated input"


def dilated_base(view: ModuleView, target: str) -> Hits:
    """Window reductions of a dilated operand."""
    for operation in view.named("stablehlo.reduce_window"):
        if _exceeds_one(operation, "base_dilations"):
            yield operation, "dilates its operand"


def dilated_window(view: ModuleView, target: str) -> Hits:
    """Window reductions with holes in the window."""
    for operation in view.named("stablehlo.reduce_window"):
        if _exceeds_one(operation, "window_dilations"):
            yield operation, "dilates its window"


def several_operands(view: ModuleView, target: str) -> Hits:
    """Window reductions of more than one tensor."""
    for operation in view.named("stablehlo.reduce_window"):
        if len(operation.operands) != 2:
            yield operation, f"reduces {len(operation.operands) // 2} tensors together"


def _exceeds_one(operation: Any, name: str) -> bool:
    if name not in operation.attributes:
        return False
    return any(extent > 1 for extent in ir.DenseI64ArrayAttr(operation.attributes[name]))
