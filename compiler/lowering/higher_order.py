"""Branches, maps, scans and flexible attention in terms of loops and plain operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor, fx
from torch._higher_order_ops.cond import cond_op
from torch._higher_order_ops.flex_attention import flex_attention, math_attention
from torch._higher_order_ops.map import map_impl
from torch._higher_order_ops.scan import scan_op
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from ...errors import LoweringError
from ...passes.locations import source_line
from ..capture.decompositions import DECOMPOSITIONS
from .control_flow import WHILE_LOOP, loop_graphs
from .inlining import inline_before

Function = Callable[..., Any]


def inline_higher_order(module: fx.GraphModule) -> None:
    """Replace higher-order operators other than ``while_loop`` by graphs of plain operators and loops.

    Raises:
        LoweringError: an operator cannot be traced with these arguments.
    """
    for node in list(module.graph.nodes):
        if node.target is WHILE_LOOP:
            for part in loop_graphs(node):
                inline_higher_order(part)
        elif node.op == "call_function" and node.target in MEANINGS:
            _inline(module, node)


def _inline(module: fx.GraphModule, node: fx.Node) -> None:
    operands = [source for source in node.all_input_nodes if source.op != "get_attr" or "val" in source.meta]
    graphs = {source: getattr(module, str(source.target)) for source in node.all_input_nodes if source not in operands}
    structure = None

    def compute(*tensors: Tensor) -> list[Any]:
        nonlocal structure
        values = {**graphs, **dict(zip(operands, tensors, strict=True))}
        args, kwargs = fx.map_arg((node.args, node.kwargs), values.__getitem__)
        flat, structure = tree_flatten(MEANINGS[node.target](*args, **kwargs))
        return flat

    try:
        traced = _trace(compute, [source.meta["val"] for source in operands])
    except (IndexError, NotImplementedError, RuntimeError, ValueError) as error:
        line = source_line(node)
        where = f" at {line}" if line else ""
        raise LoweringError(f"{node.target}{where} cannot be traced: {error}") from error
    inline_higher_order(traced)
    made = inline_before(module, node, traced, operands)
    assert structure is not None
    _replace(node, tree_unflatten(made, structure))
    node.graph.erase_node(node)
    for source in graphs:
        if not source.users:
            source.graph.erase_node(source)


def _trace(function: Function, types: Sequence[Tensor]) -> fx.GraphModule:
    with FakeTensorMode(allow_non_fake_inputs=True):
        inputs = [torch.empty_strided(one.shape, one.stride(), dtype=one.dtype) for one in types]
    module = make_fx(function, decomposition_table=dict(DECOMPOSITIONS), tracing_mode="fake")(*inputs)
    module.graph.eliminate_dead_code()
    return module


def _replace(node: fx.Node, value: Any) -> None:
    """Have the users of a call, or of the parts of its result, read what was computed instead."""
    if isinstance(value, fx.Node):
        node.replace_all_uses_with(value)
        return
    for part in list(node.users):
        _replace(part, value[part.args[1]])
        part.graph.erase_node(part)


def _both_branches(chosen: Tensor | bool, true: Function, false: Function, operands: Sequence[Any]) -> Any:
    """``torch.cond``: programs have no branches, so both are computed and one is selected."""
    if isinstance(chosen, bool):
        return (true if chosen else false)(*operands)
    return tuple(torch.where(chosen, one, other) for one, other in zip(true(*operands), false(*operands), strict=True))


def _scan_loop(body: Function, start: Sequence[Tensor], slices: Sequence[Tensor], others: Sequence[Any]) -> Any:
    """``scan``: carries values over the first dimension, and stacks what each step gives."""
    length, carried = slices[0].shape[0], len(start)
    first = body(*start, *(one[0] for one in slices), *others)
    stacks = [torch.zeros(length, *one.shape, dtype=one.dtype) for one in first[carried:]]

    def goes_on(step: Tensor, *values: Any) -> Tensor:
        return step < length

    def next_step(step: Tensor, *values: Any) -> tuple[Tensor, ...]:
        state, written = values[:carried], values[carried : carried + len(stacks)]
        inputs, rest = _split(values[carried + len(stacks) :], len(slices))
        results = body(*state, *(one.index_select(0, step.reshape(1)).squeeze(0) for one in inputs), *rest)
        stored = [
            one.index_copy(0, step.reshape(1), new[None]) for one, new in zip(written, results[carried:], strict=True)
        ]
        return step + 1, *(one.clone() for one in results[:carried]), *stored

    _, *values = cast(Any, WHILE_LOOP)(
        goes_on, next_step, (torch.zeros((), dtype=torch.int64), *start, *stacks), (*slices, *others)
    )
    return values


def _split(values: Sequence[Any], count: int) -> tuple[Sequence[Any], Sequence[Any]]:
    return values[:count], values[count:]


def _map_loop(body: Function, slices: Sequence[Tensor], others: Sequence[Any]) -> Any:
    """``map``: a scan that carries nothing."""
    return _scan_loop(body, (), slices, others)


MEANINGS: dict[Any, Function] = {
    cond_op: _both_branches,
    map_impl: _map_loop,
    scan_op: _scan_loop,
    flex_attention: math_attention,
}
