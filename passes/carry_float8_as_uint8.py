"""Give and take float8 values as the uint8 that holds their bits.

Trainium compilers refuse float8_e4m3fn wherever it occurs, and XLA's CPU compiler converts it one element at a time.
So inputs, outputs and everything that only moves elements become uint8, a cast from or to float8 becomes arithmetic
on bits (``float8.py``), and views between the two types vanish. An operator that computes on float8 itself gets its
operands viewed as float8 again.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from .context import PassContext, emit_before, erase_unused, output_node, placeholders, results
from .float8 import FORMATS, decode_before, encode_before
from .result_type import as_type
from .target_facts import facts_of

aten = torch.ops.aten

_CASTS = {aten._to_copy.default, torch.ops.prims.convert_element_type.default}
_MOVES = {
    *(aten.view.default, aten._unsafe_view.default, aten.reshape.default, aten.clone.default, aten.detach.default),
    *(aten.alias.default, aten.squeeze.default, aten.squeeze.dim, aten.squeeze.dims, aten.unsqueeze.default),
    *(aten.permute.default, aten.transpose.int, aten.t.default, aten.expand.default, aten.repeat.default),
    *(aten.slice.Tensor, aten.select.int, aten.split.Tensor, aten.split_with_sizes.default, aten.unbind.int),
    *(aten.cat.default, aten.stack.default, aten.flip.default, aten.roll.default, aten.where.self),
    *(aten.index.Tensor, aten.index_select.default, aten.gather.default, aten.embedding.default),
    *(aten.index_copy.default, aten.select_scatter.default, aten.slice_scatter.default, aten.scatter.src),
    *(aten.as_strided.default, aten.as_strided_scatter.default),
}


@dataclass(frozen=True)
class _Coded:
    """The uint8 node that stands for a float8 one, and the format it is in."""

    node: fx.Node
    format: torch.dtype


def carry_float8_as_uint8(module: fx.GraphModule, context: PassContext) -> int:
    """Replace float8 values by their uint8 codes; returns how many values and casts there were.

    Leaves ``context.carriers`` for the inputs and ``context.result_dtypes`` for the outputs.
    """
    return replace_float8_by_codes(module, context, facts_of(context.target).e4m3_max)


def replace_float8_by_codes(module: fx.GraphModule, context: PassContext, e4m3_max: float) -> int:
    """``carry_float8_as_uint8`` for any graph; casts to e4m3fn saturate at ``e4m3_max``."""
    changed = _retype_inputs(module, context)
    coded: dict[fx.Node, _Coded] = {}
    for node in list(module.graph.nodes):
        if node.op == "get_attr" and _format_of(node) is not None:
            coded[node] = _retype_constant(module, node)
        elif node.op == "call_function":
            changed += _rewrite(node, coded, e4m3_max)
    _return_codes(module, context, coded)
    if changed:
        erase_unused(module.graph)
    return changed


def _retype_inputs(module: fx.GraphModule, context: PassContext) -> int:
    """Type float8 inputs uint8 and view them as float8 in front of their uses; returns how many there were."""
    inputs = placeholders(module)
    float8 = [position for position, node in enumerate(inputs) if _format_of(node) is not None]
    for position in float8:
        node = inputs[position]
        with node.graph.inserting_before(inputs[-1].next):
            view = node.graph.call_function(aten.view.dtype, (node, node.meta["val"].dtype))
        node.replace_all_uses_with(view, delete_user_cb=lambda user, view=view: user is not view)
        view.meta.update(node.meta)
        node.meta["val"] = _as_bytes(node)
        context.carriers[position] = torch.uint8
    return len(float8)


def _retype_constant(module: fx.GraphModule, node: fx.Node) -> _Coded:
    constant = getattr(module, str(node.target))
    name = f"{node.target}_codes"
    module.register_buffer(name, constant.view(torch.uint8))
    with node.graph.inserting_after(node):
        codes = node.graph.get_attr(name)
    codes.meta.update(node.meta, val=_as_bytes(node))
    return _Coded(codes, constant.dtype)


def _return_codes(module: fx.GraphModule, context: PassContext, coded: Mapping[fx.Node, _Coded]) -> None:
    output = output_node(module)
    for position, result in enumerate(results(module)):
        if result in coded and position not in context.aliases:
            context.result_dtypes[position] = coded[result].format
    output.args = fx.map_arg(output.args, lambda node: coded[node].node if node in coded else node)


def _rewrite(node: fx.Node, coded: dict[fx.Node, _Coded], e4m3_max: float) -> bool:
    """Give a node that makes or takes float8 its uint8 form; returns whether it is such a node."""
    target, sources = _format_of(node), [source for source in node.all_input_nodes if source in coded]
    if target is None and not sources:
        return False
    if node.target in _CASTS:
        _rewrite_cast(node, coded, target, e4m3_max)
    elif node.target is aten.view.dtype:
        _rewrite_view(node, coded, target)
    elif target is not None and _only_moves(node, coded):
        moved = fx.map_arg((node.args, node.kwargs), lambda one: coded[one].node if one in coded else one)
        coded[node] = _Coded(_emit_move(node, *moved), target)
    else:
        _bridge(node, coded, target)
    return True


def _rewrite_cast(node: fx.Node, coded: dict[fx.Node, _Coded], target: torch.dtype | None, e4m3_max: float) -> None:
    value: Any = node.args[0]
    if value in coded:
        if coded[value].format is target:
            coded[node] = coded[value]
            return
        wide = torch.float32 if target is not None else node.meta["val"].dtype
        value = decode_before(node, coded[value].node, coded[value].format, wide)
    if target is None:
        node.replace_all_uses_with(value)
    else:
        coded[node] = _Coded(encode_before(node, value, target, e4m3_max), target)


def _rewrite_view(node: fx.Node, coded: dict[fx.Node, _Coded], target: torch.dtype | None) -> None:
    source: Any = node.args[0]
    value = coded[source].node if source in coded else source
    seen_as = torch.uint8 if target is not None else node.meta["val"].dtype
    if value.meta["val"].dtype is not seen_as:
        value = emit_before(node, aten.view.dtype, value, seen_as)
    if target is None:
        node.replace_all_uses_with(value)
    else:
        coded[node] = _Coded(value, target)


def _only_moves(node: fx.Node, coded: Mapping[fx.Node, _Coded]) -> bool:
    """Whether the node puts elements of codes elsewhere, and no element from another source among them."""
    if node.target is operator.getitem:
        return node.args[0] in coded
    moves = node.target in _MOVES or (node.target is aten.index_put.default and len(node.args) == 3)
    others = [source.meta["val"].dtype for source in node.all_input_nodes if source not in coded]
    return moves and len(others) < len(node.all_input_nodes) and not any(dtype.is_floating_point for dtype in others)


def _emit_move(node: fx.Node, args: tuple[Any, ...], kwargs: dict[str, Any]) -> fx.Node:
    if node.target is not operator.getitem:
        return emit_before(node, node.target, *args, **kwargs)  # pyright: ignore[reportArgumentType]
    with node.graph.inserting_before(node):
        part = node.graph.call_function(operator.getitem, args)
    part.meta.update(node.meta, val=args[0].meta["val"][args[1]])
    return part


def _bridge(node: fx.Node, coded: dict[fx.Node, _Coded], target: torch.dtype | None) -> None:
    """Let an operator compute on float8: view its operands as float8 and its result as uint8."""
    for source in node.all_input_nodes:
        if source in coded:
            node.replace_input_with(
                source, emit_before(node, aten.view.dtype, coded[source].node, coded[source].format)
            )
    if target is not None:
        codes = emit_before(node, aten.view.dtype, node, torch.uint8)
        node.append(codes)
        coded[node] = _Coded(codes, target)


def _format_of(node: fx.Node) -> torch.dtype | None:
    """The float8 format of a value, or of the parts of a tuple."""
    value = node.meta.get("val")
    first: Any = value[0] if isinstance(value, (tuple, list)) and value else value
    dtype = getattr(first, "dtype", None)
    return dtype if dtype in FORMATS else None


def _as_bytes(node: fx.Node) -> torch.Tensor:
    return as_type(node.meta["val"]).view(torch.uint8)
