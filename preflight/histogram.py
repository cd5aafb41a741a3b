"""Which operations modules are made of, and on values of which element types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from ..compiler.lowering.context import shared_context
from .module_view import ModuleView, tensor_types

FLOAT8, SORT, WIDE = "float8 values", "sorts", "64-bit integers"
UNSIZED = "results of unknown size, as indexing by booleans has"
UNWANTED = (FLOAT8, SORT, WIDE, UNSIZED)
"""What a step for a Neuron core should not have any of."""

_FUNCTION = "func.func"


@dataclass(frozen=True)
class TypedOperation:
    """An operation's name, such as ``stablehlo.gather``, and the element types that it takes and makes.

    Each type is named once, in the order of operands or results: ``("bf16", "i32")``. Those of a function are its
    arguments' and its results'.
    """

    name: str
    takes: tuple[str, ...]
    makes: tuple[str, ...]


@dataclass(frozen=True)
class OperationCount:
    """How many operations of a kind there are."""

    operation: TypedOperation
    count: int


@dataclass(frozen=True)
class Histogram:
    """Operations of some modules, those of private functions counted once.

    Attributes:
        operations: the most frequent first.
        elements: for each element type, how many operations take or make values of it, the most frequent first.
        unwanted: for each of UNWANTED, how many operations have it. StableHLO has no boolean indices themselves.
    """

    operations: tuple[OperationCount, ...]
    elements: dict[str, int]
    unwanted: dict[str, int]

    @property
    def names(self) -> dict[str, int]:
        """How many operations have each name, the most frequent first."""
        counts = Counter[str]()
        for one in self.operations:
            counts[one.operation.name] += one.count
        return dict(counts.most_common())


def histogram_of(modules: Iterable[bytes]) -> Histogram:
    """Count the operations of StableHLO modules, each as MLIR bytecode or text."""
    operations, unwanted = Counter[TypedOperation](), Counter[str]()
    for bytecode in modules:
        with shared_context():
            view = ModuleView(ir.Module.parse(bytecode))
            for operation in view.operations:
                typed = _typed(operation)
                operations[typed] += 1
                unwanted.update(_unwanted(operation, typed))
    elements = Counter[str]()
    for typed, count in operations.items():
        elements.update(dict.fromkeys((*typed.takes, *typed.makes), count))
    return Histogram(
        tuple(OperationCount(typed, count) for typed, count in operations.most_common()),
        dict(elements.most_common()),
        {name: unwanted[name] for name in UNWANTED},
    )


def _typed(operation: Any) -> TypedOperation:
    if operation.name == _FUNCTION:
        block = operation.regions[0].blocks[0]
        returned = list(block.operations)[-1].operands
        return TypedOperation(operation.name, _elements(block.arguments), _elements(returned))
    return TypedOperation(operation.name, _elements(operation.operands), _elements(operation.results))


def _elements(values: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(one.element_type) for one in tensor_types(values)))


def _unwanted(operation: Any, typed: TypedOperation) -> list[str]:
    elements = {*typed.takes, *typed.makes}
    has = {
        FLOAT8: any(re.match("f8E", element) for element in elements),
        SORT: typed.name == "stablehlo.sort",
        WIDE: not elements.isdisjoint(("i64", "ui64")),
        UNSIZED: not all(one.has_static_shape for one in tensor_types(operation.results)),
    }
    return [name for name, found in has.items() if found]
