"""Nested results of a step as data: which program output goes where.

A description is JSON: ``{"output": 3}`` stands for a program output, ``{"constant": 1.5}`` for a value
that does not depend on the inputs, and ``{"dict": {...}}``, ``{"list": [...]}`` and ``{"tuple": [...]}``
for containers of descriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from ..errors import InputError

Description = dict[str, Any]


def describe(value: Any, output_of: Callable[[Tensor], int]) -> Description:
    """Describe ``value``, whose tensors are numbered by ``output_of``.

    Raises:
        InputError: ``value`` holds something else than dicts with string keys, lists, tuples,
            tensors, numbers, strings and None.
    """
    if isinstance(value, Tensor):
        return {"output": output_of(value)}
    if value is None or type(value) in (bool, int, float, str):
        return {"constant": value}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: describe(item, output_of) for key, item in value.items()}}
    if type(value) in (list, tuple):
        return {type(value).__name__: [describe(item, output_of) for item in value]}
    raise InputError(
        f"a result of type {type(value).__name__} cannot be described: return tensors, numbers, strings or None, "
        "in dicts with string keys, lists and tuples"
    )


def builder(description: Description) -> Callable[[Sequence[Tensor]], Any]:
    """A function that puts a flat sequence of outputs into the described structure."""
    ((kind, content),) = description.items()
    if kind == "output":
        return lambda outputs: outputs[content]
    if kind == "constant":
        return lambda outputs: content
    if kind == "dict":
        fields = [(key, builder(item)) for key, item in content.items()]
        return lambda outputs: {key: build(outputs) for key, build in fields}
    items = [builder(item) for item in content]
    if kind == "list":
        return lambda outputs: [build(outputs) for build in items]
    return lambda outputs: tuple(build(outputs) for build in items)
