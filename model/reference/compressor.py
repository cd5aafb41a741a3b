"""The compressor of a kv source layer: one stored latent and one index key for every group of tokens."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from ..checkpoint.formats import simulate_fp4_e4m3, simulate_fp4_e8m0
from .kernels import add_in_order, exp, rope
from .state import RequestState
from .weights import Block


def append_compressed(block: Block, layer: int, x: Tensor, state: RequestState, frequencies: Tensor) -> None:
    """Append to the caches the groups that the tokens x [S, d] complete.

    The index key is made from the latent before its rotation; both are rotated at the position of the group's first
    token (DeepSeek-V4.1 inference code, model.py Compressor.forward).
    """
    ratio = block.config.compress_ratios[layer]
    latents = _latents(block, layer, x, state, ratio)
    first = len(state.compressed.get(layer, ()))
    positions = (first + torch.arange(len(latents))) * ratio
    index_keys = block.norm("attn.indexer.k_norm", block.plain_linear("attn.indexer.wk", latents))
    index_keys = block.cached(rope(index_keys, positions, frequencies), simulate_fp4_e8m0)
    quantiser = partial(simulate_fp4_e4m3, largest=block.numerics.fp8_max)
    stored = block.cached(rope(latents, positions, frequencies), quantiser)
    if len(latents):
        block.report("attn.index_key", index_keys)
        block.report("attn.latent", stored)
    _append(state.index_keys, layer, index_keys)
    _append(state.compressed, layer, stored)


def _latents(block: Block, layer: int, x: Tensor, state: RequestState, ratio: int) -> Tensor:
    """Normalised latents [groups completed, D] in the run's dtype, not yet rotated."""
    if ratio == 1:
        pooled = block.plain_linear("attn.compressor.wkv", x)
    else:
        pooled = _pool(block, layer, x, state, ratio).to(x.dtype)
    return block.norm("attn.compressor.norm", pooled)


def _pool(block: Block, layer: int, x: Tensor, state: RequestState, ratio: int) -> Tensor:
    """Softmax-weighted mean of each complete group, per channel, float32 [groups, D]; the rest stays pending."""
    keys = block.float_linear("attn.compressor.wkv", x)
    scores = block.float_linear("attn.compressor.wgate", x)
    if layer in state.pending:
        earlier_keys, earlier_scores = state.pending[layer]
        keys, scores = torch.cat([earlier_keys, keys]), torch.cat([earlier_scores, scores])
    complete = len(keys) // ratio * ratio
    state.pending[layer] = keys[complete:], scores[complete:]
    grouped_keys, grouped_scores = (t[:complete].unflatten(0, (-1, ratio)) for t in (keys, scores))
    exponentials = exp(grouped_scores - grouped_scores.amax(1, keepdim=True))
    weights = exponentials / add_in_order(exponentials.unbind(1)).unsqueeze(1)
    return add_in_order((grouped_keys * weights).unbind(1))


def _append(cache: dict[int, Tensor], layer: int, rows: Tensor) -> None:
    cache[layer] = torch.cat([cache[layer], rows]) if layer in cache else rows
