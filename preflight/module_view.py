"""A module as rules see it: its operations in order, with their types and the model's lines."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from typing import Any

from jaxlib.mlir import ir

_LINE = re.compile(r'"(?P<file>[^"]+)":(?P<line>\d+)')


class ModuleView:
    """Operations of a verified StableHLO module, in order, those of private functions and regions included.

    The MLIR context that ``module`` was parsed in has to be entered while a view is used.
    """

    def __init__(self, module: ir.Module) -> None:
        # Operations met on a walk do not keep their module alive.
        self.module = module
        self.operations: list[Any] = []
        self._by_name: dict[str, list[Any]] = {}
        module.operation.walk(self._note)

    def _note(self, operation: Any) -> Any:
        self.operations.append(operation)
        self._by_name.setdefault(operation.name, []).append(operation)
        return ir.WalkResult.ADVANCE

    def named(self, *names: str) -> Iterator[Any]:
        """The operations with one of these names, such as ``stablehlo.sort``."""
        for name in names:
            yield from self._by_name.get(name, ())

    @property
    def main(self) -> Any:
        """The entry function."""
        for function in self.named("func.func"):
            if ir.StringAttr(function.attributes["sym_name"]).value == "main":
                return function
        raise ValueError("the module has no function main")


def line_of(operation: Any) -> str | None:
    """The model's line that an operation comes from, such as ``model/moe.py:80``."""
    match = _LINE.search(str(operation.location))
    return f"{match['file']}:{match['line']}" if match else None


def tensor_types(values: Iterable[Any]) -> list[ir.RankedTensorType]:
    """The types of those values that are tensors."""
    types = [value.type for value in values]
    return [ir.RankedTensorType(one) for one in types if isinstance(one, ir.RankedTensorType)]


def element_of(value: Any) -> str:
    """The name of a tensor's element type, such as ``bf16`` or ``i32``."""
    return str(ir.RankedTensorType(value.type).element_type)


def shape_of(value: Any) -> tuple[int, ...]:
    """A tensor's dimensions."""
    return tuple(ir.RankedTensorType(value.type).shape)


def is_wide_integer(element: str) -> bool:
    """Whether an element type has 32 or 64 bits and holds integers."""
    return element in ("i32", "ui32", "i64", "ui64")


def is_integer(element: str) -> bool:
    """Whether an element type holds integers or booleans."""
    return re.fullmatch(r"u?i\d+", element) is not None


def bytes_of(value: Any) -> int:
    """The bytes of a tensor; booleans and narrower types take a byte for each element."""
    type = ir.RankedTensorType(value.type)
    bits = re.search(r"\d+", str(type.element_type))
    return math.prod(type.shape) * max(1, int(bits.group()) // 8 if bits else 1)
