"""The indexer: which compressed rows a query attends to."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checkpoint.formats import simulate_fp4_e8m0
from .kernels import index_scores, rope, top_indices
from .state import Forward
from .weights import Block


def select_rows(
    block: Block, layer: int, x: Tensor, latent_query: Tensor, forward: Forward, frequencies: Tensor
) -> Tensor:
    """Compressed rows int64 [S, min(index_topk, T)] for each query, ascending, -1 for none.

    The candidate source layer also publishes the blocks that later index layers are confined to. Index keys always
    come from the layer's own kv source.
    """
    config = block.config
    source = config.kv_source(layer)
    assert source is not None, "a validated configuration gives every index layer a kv source"
    visible = (forward.positions + 1) // config.compress_ratios[layer]
    scores = _scores(block, x, latent_query, forward, forward.state.index_keys[source], frequencies)
    seen = torch.arange(scores.shape[1]) < visible[:, None]
    scores = scores.masked_fill(~seen, -torch.inf)
    if layer == config.candidate_source_layer_id:
        kept = candidate_mask(scores, visible, config.candidate_topk_blocks, config.candidate_block_size)
        forward.candidates = block.report("attn.candidates", kept & seen)
    elif layer > config.candidate_source_layer_id:
        scores = scores.masked_fill(~forward.candidates, -torch.inf)
    chosen = top_indices(scores, config.index_topk).sort(dim=-1).values
    return block.report("attn.selection", torch.where(chosen < visible[:, None], chosen, -1))


def _scores(
    block: Block, x: Tensor, latent_query: Tensor, forward: Forward, keys: Tensor, frequencies: Tensor
) -> Tensor:
    config = block.config
    query = block.quantised_linear("attn.indexer.wq_b", latent_query).unflatten(-1, (-1, config.index_head_dim))
    query = block.cached(rope(query, forward.positions, frequencies), simulate_fp4_e8m0)
    factor = config.index_head_dim**-0.5 * config.index_n_heads**-0.5
    weights = block.plain_linear("attn.indexer.weights_proj", x) * factor
    block.report("attn.index_query", query)
    block.report("attn.index_weights", weights)
    return block.report("attn.index_scores", index_scores(query, keys, weights))


def candidate_mask(scores: Tensor, visible: Tensor, kept_blocks: int, block_size: int) -> Tensor:
    """The rows of the best-scoring blocks of each query, bool [S, T].

    ``scores`` [S, T] are -inf on rows not ``visible`` [S] yet. A block scores as its best row; the block of the newest
    visible row is always kept, a block with no visible row never (model.py Indexer.forward).
    """
    padded = F.pad(scores, (0, -scores.shape[1] % block_size), value=-torch.inf)
    block_scores = padded.unflatten(-1, (-1, block_size)).amax(-1)
    newest = (visible - 1).div(block_size, rounding_mode="floor")
    block_scores = block_scores.masked_fill(torch.arange(block_scores.shape[1]) == newest[:, None], torch.inf)
    best = top_indices(block_scores, kept_blocks)
    kept = torch.zeros_like(block_scores, dtype=torch.bool).scatter_(1, best, True)
    kept &= block_scores > -torch.inf
    return kept.repeat_interleave(block_size, dim=1)[:, : scores.shape[1]]
