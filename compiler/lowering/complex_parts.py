"""Complex values of a graph as two real ones, since Trainium has no complex numbers (EVRF004).

Inputs and results take the form of ``view_as_real``: a last dimension of two.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, fx
from torch._subclasses.complex_tensor import ComplexTensor
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from ...errors import LoweringError
from ...passes.context import emit_before, output_node
from ...passes.locations import source_line
from ...passes.result_type import as_type
from .inlining import attribute_before, inline_before
from .record import record

aten = torch.ops.aten


@dataclass(frozen=True)
class Parts:
    """The nodes of the real and of the imaginary part of a complex value, of one shape."""

    real: fx.Node
    imaginary: fx.Node


Values = dict[fx.Node, Any]
"""What stands for a node that makes, or reads, complex numbers: ``Parts``, a real node, or a list of them."""


def split_complex(module: fx.GraphModule) -> None:
    """Rewrite a functional graph, which may end in ``copy_`` to its inputs.

    Raises:
        LoweringError: an operator has no rule for complex numbers.
    """
    values: Values = {}
    nodes = list(module.graph.nodes)
    first_call = next(node for node in nodes if node.op != "placeholder")
    for node in nodes:
        if node.op == "placeholder" and _is_complex(node):
            values[node] = _split_input(node, first_call)
        elif node.op == "get_attr" and _is_complex(node):
            values[node] = _split_constant(module, node)
        elif node.op == "call_function" and (_is_complex(node) or not values.keys().isdisjoint(node.all_input_nodes)):
            _split_call(module, node, values)
    if values:
        _return_pairs(module, values)
        _erase(values)


def _is_complex(node: fx.Node) -> bool:
    leaves = tree_leaves(node.meta.get("val"))
    return any(isinstance(one, Tensor) and one.dtype.is_complex for one in leaves)


def _split_input(node: fx.Node, first_call: fx.Node) -> Parts:
    node.meta["val"] = torch.view_as_real(as_type(node.meta["val"]))
    return _parts_of_pair(first_call, node)


def _parts_of_pair(anchor: fx.Node, pair: fx.Node) -> Parts:
    real, imaginary = (emit_before(anchor, aten.select.int, pair, -1, index) for index in (0, 1))
    return Parts(real, imaginary)


def _pair_before(anchor: fx.Node, parts: Parts) -> fx.Node:
    return emit_before(anchor, aten.stack.default, [parts.real, parts.imaginary], -1)


def _split_constant(module: fx.GraphModule, node: fx.Node) -> Parts:
    constant = getattr(module, str(node.target)).resolve_conj()
    return _parts_of_pair(node.next, attribute_before(module, node, torch.view_as_real(constant)))


def _split_call(module: fx.GraphModule, node: fx.Node, values: Values) -> None:
    if node.target is aten.copy_.default:
        updated, written = node.all_input_nodes
        node.args = (updated, _pair_before(node, values[written]))
        return
    if node.target is operator.getitem:
        source, index = node.args
        values[node] = values[source][index]  # pyright: ignore[reportArgumentType, reportIndexIssue, reportCallIssue]
    else:
        values[node] = _by_parts(module, node, values)
    if isinstance(values[node], fx.Node):
        node.replace_all_uses_with(values[node])


def _by_parts(module: fx.GraphModule, node: fx.Node, values: Mapping[fx.Node, Any]) -> Any:
    """What stands for the results of a call, computed in front of it."""
    sources = {source: values.get(source, source) for source in node.all_input_nodes}
    operands = [one for value in sources.values() for one in _nodes_of(value)]
    kinds: list[type] = []
    structure = None

    def compute(*tensors: Tensor) -> list[Tensor]:
        nonlocal structure
        supply = iter(tensors)
        made = {source: _tensor_of(value, supply) for source, value in sources.items()}
        args, kwargs = fx.map_arg((node.args, node.kwargs), made.__getitem__)
        flat, structure = tree_flatten(node.target(*args, **kwargs))  # pyright: ignore[reportCallIssue]
        kinds.extend(map(type, flat))
        return [part for one in flat for part in ((one.re, one.im) if isinstance(one, ComplexTensor) else (one,))]

    try:
        recorded = record(compute, [one.meta["val"] for one in operands])
    except (LoweringError, NotImplementedError, RuntimeError) as error:
        line = source_line(node)
        where = f" at {line}" if line else ""
        raise LoweringError(f"{node.target}{where} with complex numbers: {error}") from error
    made = iter(inline_before(module, node, recorded, operands))
    leaves = [Parts(next(made), next(made)) if kind is ComplexTensor else next(made) for kind in kinds]
    assert structure is not None
    return tree_unflatten(leaves, structure)


def _nodes_of(value: Parts | fx.Node) -> Sequence[fx.Node]:
    return (value.real, value.imaginary) if isinstance(value, Parts) else (value,)


def _tensor_of(value: Parts | fx.Node, supply: Iterator[Tensor]) -> Tensor:
    return ComplexTensor(next(supply), next(supply)) if isinstance(value, Parts) else next(supply)


def _return_pairs(module: fx.GraphModule, values: Values) -> None:
    output = output_node(module)
    output.args = fx.map_arg(
        output.args, lambda node: _pair_before(output, values[node]) if isinstance(values.get(node), Parts) else node
    )


def _erase(values: Values) -> None:
    for node in reversed(values):
        if node.op != "placeholder" and not node.users:
            node.graph.erase_node(node)
