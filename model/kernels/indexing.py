"""The indexer: scores of compressed rows, the block candidate filter and the top-k selection.

Meaning: DeepSeek-V4.1 inference code, model.py ``Indexer``. Every selection here orders by score descending, then by
lower index first; torch.topk leaves ties open and they are frequent in bfloat16 scores.
"""

from __future__ import annotations

from functools import reduce

import torch
from torch import Tensor
from torch.nn import functional

from .library import kernel

_HIDDEN = float("-inf")


def _order_descending(scores: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Values and int32 indices of the ``count`` largest entries of the last dimension; ties go to the lower index."""
    values, indices = torch.sort(scores, dim=-1, descending=True, stable=True)
    return values[..., :count], indices[..., :count].to(torch.int32)


def _scores_shape(query: Tensor, keys: Tensor, weights: Tensor) -> Tensor:
    return query.new_empty(query.shape[0], keys.shape[1])


@kernel("index_scores(Tensor query, Tensor keys, Tensor weights) -> Tensor", _scores_shape)
def index_scores(query: Tensor, keys: Tensor, weights: Tensor) -> Tensor:
    """Sum over heads of weight * relu(query . key), rounded to the query's dtype after every operation.

    query [M, heads, D], keys [M or 1, T, D] (1: the same keys for every row), weights [M, heads]: [M, T].
    """
    dtype = query.dtype
    wide_query, wide_keys = query.float(), keys.float()
    if keys.shape[0] == 1:
        products = torch.mm(wide_query.flatten(0, 1), wide_keys[0].t()).unflatten(0, query.shape[:2])
    else:
        products = torch.bmm(wide_query, wide_keys.transpose(1, 2))
    weighted = torch.relu(products.to(dtype)) * weights.unsqueeze(-1)
    # One addition at a time: the order of a library's sum would change with the number of heads.
    return reduce(torch.add, weighted.float().unbind(1)).to(dtype)


def _candidates_shape(scores: Tensor, visible: Tensor, block_size: int, block_count: int) -> Tensor:
    return torch.empty_like(scores, dtype=torch.bool)


@kernel("candidate_mask(Tensor scores, Tensor visible, int block_size, int block_count) -> Tensor", _candidates_shape)
def candidate_mask(scores: Tensor, visible: Tensor, block_size: int, block_count: int) -> Tensor:
    """Rows that stay eligible: the ``block_count`` best blocks of ``block_size`` by their maximum, the newest always.

    scores [M, T], visible [M] int32 (rows below it exist): bool [M, T].
    """
    width = scores.shape[1]
    blocks = -(-width // block_size)
    hidden = torch.arange(width, dtype=torch.int32, device=scores.device) >= visible.unsqueeze(1)
    padded = functional.pad(
        scores.float().masked_fill(hidden, _HIDDEN), (0, blocks * block_size - width), value=_HIDDEN
    )
    best = padded.unflatten(1, (blocks, block_size)).amax(-1)
    newest = torch.div(visible - 1, block_size, rounding_mode="floor").unsqueeze(1)
    number = torch.arange(blocks, dtype=torch.int32, device=scores.device)
    best = torch.where(number == newest, float("inf"), best)
    values, indices = _order_descending(best, min(block_count, blocks))
    kept = torch.zeros_like(best, dtype=torch.bool).scatter(1, indices.long(), values > _HIDDEN)
    return kept.unsqueeze(-1).expand(-1, -1, block_size).flatten(1)[:, :width] & ~hidden


def _select_shape(scores: Tensor, visible: Tensor, candidates: Tensor | None, count: int) -> Tensor:
    return torch.empty_like(scores[:, :1], dtype=torch.int32).expand(-1, count).contiguous()


@kernel("select_top_rows(Tensor scores, Tensor visible, Tensor? candidates, int count) -> Tensor", _select_shape)
def select_top_rows(scores: Tensor, visible: Tensor, candidates: Tensor | None, count: int) -> Tensor:
    """Indices of the ``count`` best visible rows, ascending, -1 after the last: scores [M, T] to int32 [M, count]."""
    width = scores.shape[1]
    hidden = torch.arange(width, dtype=torch.int32, device=scores.device) >= visible.unsqueeze(1)
    if candidates is not None:
        hidden = hidden | ~candidates
    _, indices = _order_descending(scores.float().masked_fill(hidden, _HIDDEN), min(count, width))
    ascending = torch.sort(indices, dim=-1, stable=True).values
    selected = torch.where(ascending < visible.unsqueeze(1), ascending, -1)
    return functional.pad(selected, (0, count - selected.shape[1]), value=-1)
