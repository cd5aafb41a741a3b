"""Take scales as the contiguous row-major tensors that products read, instead of turning them in every step.

Checkpoints made for GPU kernels keep the scales of a quantised weight transposed, padded to a multiple of the kernel's
tile or with a stride, and the model slices and permutes them. The weight's own transpose costs nothing, a dot reads it
through its contracting dimension; a scale meets a multiplication, so its permutation is a copy in each step. It becomes
a layout that the weight gets when it is loaded.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import fx

from .context import PassContext, arguments, emit_before, erase_unused, placeholders
from .strided_view import VIEWS, StridedView
from .weight_layout import WeightLayout

aten = torch.ops.aten

_CASTS = {aten._to_copy.default, torch.ops.prims.convert_element_type.default}
_VIEWS = VIEWS - {aten.expand.default}
_PRODUCTS = {aten.mul.Tensor, aten.div.Tensor}
_REPEATS = {aten.expand.default, aten.repeat.default, aten.clone.default, aten.index.Tensor, aten._unsafe_view.default}
_REPEATS |= {aten.reshape.default, *_VIEWS, *_CASTS}


def row_major_scales(module: fx.GraphModule, context: PassContext) -> int:
    """Move views and copies of scales to ``context.layouts``; returns how many scales had any."""
    updated = set(context.aliases.values())
    changed = 0
    for position, scale in enumerate(placeholders(module)):
        if position not in updated and context.is_weight(position):
            chain = list(_chain(scale))
            if _is_scale(chain[-1]) and _rearrange(position, chain, context):
                changed += 1
    if changed:
        erase_unused(module.graph)
    return changed


def _chain(scale: fx.Node) -> Iterator[fx.Node]:
    """The input, then casts and views of it, one behind the other, up to where it is copied or used.

    A cast may leave another layout in memory, so no view of memory follows one.
    """
    yield scale
    node = scale
    views = _VIEWS
    while len(node.users) == 1:
        (node,) = node.users
        if node.target not in _CASTS and node.target not in views and node.target is not aten.clone.default:
            return
        yield node
        if node.target in _CASTS:
            views = _VIEWS - {aten.view.default, aten.as_strided.default}
        if node.target is aten.clone.default:
            return


def _is_scale(node: fx.Node) -> bool:
    """Whether the values, repeated or not, are only multiplied by or divided by."""
    return bool(node.users) and all(
        user.target in _PRODUCTS or (user.target in _REPEATS and arguments(user)[0] is node and _is_scale(user))
        for user in node.users
    )


def _has_strides_of_its_own(chain: list[fx.Node]) -> bool:
    """Whether strides in the chain count elements of the input, not of memory that it is a part of."""
    value = chain[0].meta["val"]
    plain = value.is_contiguous() and value.storage_offset() == 0
    return plain or all(node.target is not aten.as_strided.default for node in chain)


def _rearrange(position: int, chain: list[fx.Node], context: PassContext) -> bool:
    """Give the input the layout of the end of the chain; returns False if that is its own."""
    scale, last = chain[0], chain[-1]
    view = StridedView.whole(scale)
    for node in chain[1:]:
        if node.target in _VIEWS:
            view = view.through(node)
    if view.is_whole or 0 in view.size or not _has_strides_of_its_own(chain):
        return False
    casts = [node for node in chain[1:] if node.target in _CASTS]
    scale.meta["val"] = torch.empty(view.size, dtype=scale.meta["val"].dtype, device="meta")
    value = scale
    for cast in casts:
        value = emit_before(last, cast.target, value, *cast.args[1:], **cast.kwargs)  # pyright: ignore
    last.replace_all_uses_with(value)
    context.layouts[position] = WeightLayout(view.size, view.stride, view.offset)
    return True
