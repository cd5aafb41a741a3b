"""Address the rows of an updated input directly, however the model took views of it.

A model keeps one root for all layers and gives each a view: ``select``, ``slice``, ``narrow``, ``view``, ``unbind``,
``split`` or ``as_strided``. AOTAutograd turns a store into a view into a copy of the view, and scatters that copy back
into a copy of the root. Here each version of the root is followed through the graph, and a store into a view of it
becomes a store of rows of the root, a load through a view a gather of rows of the root.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import fx

from .context import PassContext, emit_before, erase_unused, placeholders
from .row_access import Indices, can_access, in_shape, load_rows, store_rows
from .strided_view import SPLITS, VIEWS, StridedView

aten = torch.ops.aten

_SCATTERS = {
    aten.select_scatter.default: aten.select.int,
    aten.slice_scatter.default: aten.slice.Tensor,
    aten.as_strided_scatter.default: aten.as_strided.default,
    aten.diagonal_scatter.default: aten.diagonal.default,
}


@dataclass(frozen=True)
class _Store:
    """``region[indices] = values``; no indices mean the whole region."""

    region: StridedView
    indices: Indices
    values: fx.Node


@dataclass(frozen=True)
class _Updated:
    """What a view of a version of the root reads after these stores."""

    view: StridedView
    stores: tuple[_Store, ...] = ()


@dataclass
class _Walk:
    """Which nodes are known views of a version of a root, with stores that are not in the root yet."""

    known: dict[fx.Node, _Updated] = field(default_factory=dict)
    changed: int = 0


def reslice_kv_views(module: fx.GraphModule, context: PassContext) -> int:
    """Rewrite stores and loads through views of updated inputs; returns how many there were."""
    inputs = placeholders(module)
    walk = _Walk()
    for source in context.aliases.values():
        value = inputs[source].meta["val"]
        if value.is_contiguous() and value.storage_offset() == 0:
            walk.known[inputs[source]] = _Updated(StridedView.whole(inputs[source]))
    for node in list(module.graph.nodes):
        if node.op == "call_function":
            _visit(walk, node)
    if walk.changed:
        erase_unused(module.graph)
    return walk.changed


def _visit(walk: _Walk, node: fx.Node) -> None:
    updated = _updated(walk.known, node)
    if updated is not None:
        if node.target is operator.getitem:
            node = _part_alone(node)
        walk.known[node] = updated
        if updated.stores and updated.view.is_whole:
            _store_into_root(walk, node, updated)
        return
    access = _loaded(node)
    source = walk.known.get(access[0]) if access is not None else None
    if access is None or source is None or source.stores or source.view.is_whole:
        return
    if can_access(source.view, access[1]):
        node.replace_all_uses_with(load_rows(node, source.view, access[1]))
        walk.changed += 1


def _part_alone(part: fx.Node) -> fx.Node:
    """One part of a split as a view of its own, so that what reads it depends on that part only."""
    split: Any = part.args[0]
    source, number = split.args[0], int(part.args[1])  # pyright: ignore[reportArgumentType]
    if split.target is aten.unbind.int:
        alone = emit_before(part, aten.select.int, source, *split.args[1:] or (0,), number)
    else:
        dimension = split.args[2] if len(split.args) > 2 else 0
        sizes = [value.shape[dimension] for value in split.meta["val"]]
        start = sum(sizes[:number])
        alone = emit_before(part, aten.slice.Tensor, source, dimension, start, start + sizes[number])
    part.replace_all_uses_with(alone)
    return alone


def _updated(known: Mapping[fx.Node, _Updated], node: fx.Node) -> _Updated | None:
    """What ``node`` is, if it is a view of a version of a root or such a view after a store."""
    target: Any = node.target
    source: Any = node.args[0] if node.args else None
    if target is operator.getitem and source.target in SPLITS and source.args[0] in known:
        before = known[source.args[0]]
        return _Updated(before.view.part(source, node.args[1]), before.stores)  # pyright: ignore[reportArgumentType]
    if not isinstance(source, fx.Node) or source not in known:
        return None
    before = known[source]
    if target in VIEWS:
        return _Updated(before.view.through(node), before.stores)
    if target in _SCATTERS:
        return _scattered(known, node, before)
    stored = _stored(node)
    if stored is not None and can_access(before.view, stored[0]):
        return _Updated(before.view, (*before.stores, _Store(before.view, *stored)))
    return None


def _scattered(known: Mapping[fx.Node, _Updated], node: fx.Node, before: _Updated) -> _Updated | None:
    """The scatter of a view's new contents into the view it was taken from adds nothing to their stores."""
    values: Any = node.args[1]
    region = before.view.apply(_SCATTERS[node.target], *node.args[2:], **node.kwargs)  # pyright: ignore
    inner = known.get(values)
    if inner is not None and _follows(inner, before, region):
        return _Updated(before.view, inner.stores)
    if not can_access(region, ()):
        return None
    return _Updated(before.view, (*before.stores, _Store(region, (), values)))


def _follows(inner: _Updated, before: _Updated, region: StridedView) -> bool:
    """Whether ``inner`` is the region of ``before`` after more stores."""
    same_elements = inner.view.base is region.base and inner.view.runs() == region.runs()
    return same_elements and inner.stores[: len(before.stores)] == before.stores


def _stored(node: fx.Node) -> tuple[Indices, fx.Node] | None:
    """Indices and values of a node that replaces elements."""
    args: Any = node.args
    if node.target is aten.index_put.default and len(args) == 3:
        return tuple(args[1]), args[2]
    if node.target is aten.index_copy.default and args[2].meta["val"].dim() == 1:
        return _along(args[0], args[1], args[2]), args[3]
    return None


def _loaded(node: fx.Node) -> tuple[fx.Node, Indices] | None:
    """Source and indices of a node that reads elements."""
    args: Any = node.args
    if node.target is aten.index.Tensor:
        return args[0], tuple(args[1])
    if node.target is aten.index_select.default and args[2].meta["val"].dim() == 1:
        return args[0], _along(*args)
    return (args[0], (args[1],)) if node.target is aten.embedding.default else None


def _along(source: fx.Node, dimension: int, index: fx.Node) -> Indices:
    return (*[None] * (dimension % max(source.meta["val"].dim(), 1)), index)


def _store_into_root(walk: _Walk, node: fx.Node, updated: _Updated) -> None:
    """Make ``node``, the whole root after some stores, a new version of the root."""
    if _stored(node) is not None and all(store.region.is_whole for store in updated.stores):
        walk.known[node] = _Updated(StridedView.whole(node))
        return
    version = updated.view.base
    for store in updated.stores:
        if store.region.is_whole and not store.indices:
            version = emit_before(node, aten.reshape.default, store.values, list(version.meta["val"].shape))
        else:
            version = store_rows(node, replace(store.region, base=version), store.indices, store.values)
    shaped = in_shape(node, version, node.meta["val"].shape)
    node.replace_all_uses_with(shaped)
    walk.known[shaped] = _Updated(StridedView.whole(shaped))
    walk.changed += len(updated.stores)
