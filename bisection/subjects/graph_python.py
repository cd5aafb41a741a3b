"""An FX graph of aten operators as a Python file that needs torch alone.

The file has ``forward(...)``, with one call of ``torch.ops`` a line, and ``example_inputs()``, which makes its
arguments. Custom operators make it import the module that defines them. Values are numbered in the order of the graph,
so that equal graphs are equal files, wherever in a model they come from.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, fx
from torch._decomp import decomposition_table
from torch._ops import HigherOrderOperator, OpOverload

from ...compiler.lowering.call_arguments import is_custom
from ...compiler.lowering.tensor import MLIR_NAMES
from ...errors import GraphError
from ...passes.context import arguments, output_node, placeholders
from ...passes.locations import source_line

_PLAIN = (bool, int, str, torch.dtype, torch.layout, torch.memory_format, type(None))
"""Literals that ``repr`` writes as Python reads them."""

_BITS = '''\
def bits(text, shape, dtype):
    """A constant by its bytes."""
    return torch.frombuffer(bytearray.fromhex(text), dtype=torch.uint8).view(dtype).reshape(shape)'''

_EXAMPLE = '''\
def example(shape, stride, dtype, generator):
    """Normally distributed floats; other values are zero, which is right for an index into anything."""
    count = 0 if 0 in shape else 1 + sum((size - 1) * step for size, step in zip(shape, stride))
    values = torch.zeros(count, dtype=dtype)
    if dtype.is_floating_point:
        values = torch.randn(count, generator=generator).to(dtype)
    return values.as_strided(shape, stride)'''


def graph_python(module: fx.GraphModule) -> str:
    """The graph as the text of a Python file. Constants are contiguous in it.

    Raises:
        GraphError: the graph has something else than inputs, constants, loops and calls of operators, or a custom
            operator of which it is not known where it is defined.
    """
    return _PythonFile().text(module)


class _PythonFile:
    """The parts of one file: imports, constants, bodies of loops."""

    def __init__(self) -> None:
        self._imports: dict[str, None] = {}
        self._constants: list[str] = []
        self._functions: list[str] = []

    def text(self, module: fx.GraphModule) -> str:
        forward = self._function("forward", module)
        constants = "\n".join(self._constants)
        parts = [
            "\n".join(["import torch", *(f"import {name}" for name in sorted(self._imports))]),
            *([_BITS] if "= bits(" in constants else []),
            _EXAMPLE,
            *([constants] if constants else []),
            *self._functions,
            forward,
            _example_inputs(module),
        ]
        return "\n\n\n".join(parts) + "\n"

    def _function(self, name: str, module: fx.GraphModule) -> str:
        """A definition of a graph as a function; constants and loops that it needs are noted."""
        names: dict[fx.Node, str] = {}
        lines: list[str] = []
        for node in module.graph.nodes:
            if node.op == "placeholder":
                names[node] = f"input_{len(names)}"
            elif node.op == "get_attr":
                names[node] = self._attribute(module, node)
            elif node.op == "call_function":
                call = self._call(node, names)
                names[node] = f"value_{len(lines)}"
                lines.append(f"    {names[node]} = {call}  # {_comment(node)}")
            elif node.op != "output":
                raise GraphError(f"{node.op} {node.name!r} cannot be written as Python: expected a call of an operator")
        given = ", ".join(names[node] for node in placeholders(module))
        returned = _literal(arguments(output_node(module))[0], names)
        return "\n".join([f"def {name}({given}):", *lines, f"    return {returned}"])

    def _attribute(self, module: fx.GraphModule, node: fx.Node) -> str:
        held = getattr(module, str(node.target))
        if isinstance(held, fx.GraphModule):
            number, name = len(self._functions), f"loop_{len(self._functions)}"
            self._functions.append("")
            self._functions[number] = self._function(name, held)
            return name
        if not isinstance(held, Tensor):
            raise GraphError(f"constant {node.target!r} is {type(held).__name__}: expected a tensor")
        name = f"constant_{len(self._constants)}"
        self._constants.append(f"{name} = {_constant(held.detach())}")
        return name

    def _call(self, node: fx.Node, names: dict[fx.Node, str]) -> str:
        if node.target is operator.getitem:
            return f"{_literal(node.args[0], names)}[{_literal(node.args[1], names)}]"
        given = [_literal(one, names) for one in node.args]
        given += [f"{name}={_literal(value, names)}" for name, value in node.kwargs.items()]
        return f"{self._operator(node)}({', '.join(given)})"

    def _operator(self, node: fx.Node) -> str:
        target = node.target
        if isinstance(target, HigherOrderOperator):
            return f"torch.ops.{target.namespace}.{target.name()}"
        if not isinstance(target, OpOverload):
            raise GraphError(f"{node.name!r} calls {target!r}: expected an operator of torch.ops")
        if is_custom(target):
            self._imports[_home(target)] = None
        return f"torch.ops.{target}"


def _home(target: OpOverload) -> str:
    """The module that defines a custom operator, and with it the operator's meaning."""
    meaning = decomposition_table.get(target)
    if meaning is None:
        raise GraphError(f"{target} has no decomposition, so that its module is not known: register one")
    return str(meaning.__module__)


def _literal(argument: Any, names: dict[fx.Node, str]) -> str:
    """An argument as Python reads it."""
    if isinstance(argument, fx.Node):
        return names[argument]
    if isinstance(argument, (list, tuple)):
        inner = ", ".join(_literal(one, names) for one in argument)
        return f"[{inner}]" if isinstance(argument, list) else f"({inner}{',' * (len(argument) == 1)})"
    if isinstance(argument, float):
        return repr(argument) if math.isfinite(argument) else f'float("{argument}")'
    if isinstance(argument, torch.device):
        return f'torch.device("{argument}")'
    if isinstance(argument, _PLAIN):
        return repr(argument)
    raise GraphError(f"argument {argument!r} of type {type(argument).__name__} cannot be written as Python")


def _constant(tensor: Tensor) -> str:
    """An expression with the same bits."""
    shape, content = tuple(tensor.shape), _bytes(tensor)
    if not content:
        return f"torch.empty({shape}, dtype={tensor.dtype})"
    value = tensor.reshape(-1)[0].item()
    if _bytes(torch.full(shape, value, dtype=tensor.dtype)) == content:
        return f"torch.full({shape}, {_literal(value, {})}, dtype={tensor.dtype})"
    return f'bits("{content.hex()}", {shape}, {tensor.dtype})'


def _bytes(tensor: Tensor) -> bytes:
    return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()


def _example_inputs(module: fx.GraphModule) -> str:
    lines = [
        f"        example({tuple(value.shape)}, {tuple(value.stride())}, {value.dtype}, generator),"
        for value in map(_tensor, placeholders(module))
    ]
    head = ["def example_inputs():", "    generator = torch.Generator().manual_seed(0)", "    return ["]
    return "\n".join([*head, *lines, "    ]"])


def _tensor(node: fx.Node) -> Tensor:
    value = node.meta.get("val")
    if not isinstance(value, Tensor):
        raise GraphError(f"input {node.name!r} is {value!r}: expected a tensor")
    return value


def _comment(node: fx.Node) -> str:
    """Types of the results and the model's line."""
    line = source_line(node)
    return f"{_type(node.meta.get('val'))}{f', {line}' if line else ''}"


def _type(value: Tensor | Sequence[Any] | None) -> str:
    if isinstance(value, Tensor):
        return f"{MLIR_NAMES.get(value.dtype, value.dtype)}{list(value.shape)}"
    return f"({', '.join(map(_type, value))})" if value is not None else "none"
