"""Rules about operators a target does not have, or has for some types only."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from jaxlib.mlir import ir

from ..passes.target_facts import KNOWN_CUSTOM_CALLS, TOP_K_TARGETS
from .module_view import ModuleView, element_of, is_wide_integer
from .rule import Check

Hits = Iterator[tuple[Any, str]]


def is_used(*names: str) -> Check:
    """Finds operations by name."""

    def check(view: ModuleView, target: str) -> Hits:
        for operation in view.named(*names):
            yield operation, f"{target} has no such operation"

    return check


def takes_element(matches: Callable[[str], bool], *names: str) -> Check:
    """Finds operations by name whose first operand has an element type."""

    def check(view: ModuleView, target: str) -> Hits:
        for operation in view.named(*names):
            element = element_of(operation.operands[0])
            if matches(element):
                yield operation, f"takes {element} values"

    return check


def integer_dots(view: ModuleView, target: str) -> Hits:
    """Products of integer matrices; trn1 has them for 32 bits."""
    refused = ("i64", "ui64") if target == "trn1" else ("i32", "ui32", "i64", "ui64")
    yield from takes_element(lambda element: element in refused, "stablehlo.dot_general", "stablehlo.dot")(view, target)


def integer_top_k(view: ModuleView, target: str) -> Hits:
    """The largest of integers."""
    calls = (one for one in view.named("stablehlo.custom_call") if call_target(one) in TOP_K_TARGETS)
    for operation in (*view.named("chlo.top_k"), *calls):
        if is_wide_integer(element_of(operation.operands[0])):
            yield operation, f"takes {element_of(operation.operands[0])} values"


def unknown_custom_calls(view: ModuleView, target: str) -> Hits:
    """Custom calls that the compiler has no kernel for."""
    for operation in view.named("stablehlo.custom_call"):
        if call_target(operation) not in KNOWN_CUSTOM_CALLS:
            yield operation, f"calls {call_target(operation)!r}, which {target} does not know"


def random_algorithms(view: ModuleView, target: str) -> Hits:
    """Random bits from an algorithm that is named."""
    for operation in view.named("stablehlo.rng_bit_generator"):
        algorithm = str(operation.attributes["rng_algorithm"])
        if "DEFAULT" not in algorithm:
            yield operation, f"asks for {algorithm}"


def call_target(operation: Any) -> str:
    """The name that a custom call asks for."""
    return ir.StringAttr(operation.attributes["call_target_name"]).value
