"""Attention of one layer: low-rank queries, one shared key-value vector, a sliding window and selected rows."""

from __future__ import annotations

from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checkpoint.formats import simulate_act_quant
from .compressor import append_compressed
from .indexer import select_rows
from .kernels import rope, rope_frequencies, sparse_attention
from .state import Forward
from .weights import Block


def attention(block: Block, layer: int, x: Tensor, forward: Forward) -> Tensor:
    """x [S, d] -> [S, d] for backbone layer ``layer``; updates the request's caches and the shared selection."""
    config, state, positions = block.config, forward.state, forward.positions
    frequencies = layer_frequencies(block, layer)
    latent_query, query = project_query(block, x, positions, frequencies)
    kv = project_window_kv(block, x, positions, frequencies)
    keys, rows = _window(forward, layer, kv, config.sliding_window)
    source = config.kv_source(layer) if config.compress_ratios[layer] else None
    if source is not None:
        if layer == source:
            append_compressed(block, layer, x, state, frequencies)
        if layer in config.index_source_layer_ids:
            forward.selection = select_rows(block, layer, x, latent_query, forward, frequencies)
        selection = forward.selection
        rows = torch.cat([rows, torch.where(selection < 0, -1, selection + len(keys))], dim=1)
        keys = torch.cat([keys, state.compressed[source]])
    return project_output(block, attend(block, query, keys, rows), positions, frequencies)


def layer_frequencies(block: Block, layer: int) -> Tensor:
    """The one RoPE table of a layer: queries, window rows, latents, index vectors and the inverse all use it."""
    return rope_frequencies(block.config.qk_rope_head_dim, *block.config.rope_frequency_source(layer))


def project_query(block: Block, x: Tensor, positions: Tensor, frequencies: Tensor) -> tuple[Tensor, Tensor]:
    """x [S, d] -> normalised latent query [S, q_lora_rank] and rotated queries [S, H, D]."""
    latent = block.report("attn.q_lora", block.norm("attn.q_norm", block.quantised_linear("attn.wq_a", x)))
    query = block.quantised_linear("attn.wq_b", latent).unflatten(-1, (-1, block.config.head_dim))
    return latent, block.report("attn.q", rope(query, positions, frequencies))


def project_window_kv(block: Block, x: Tensor, positions: Tensor, frequencies: Tensor) -> Tensor:
    """x [S, d] -> the rows [S, D] that serve as keys and values of all heads, as the cache gives them back."""
    kv = block.norm("attn.kv_norm", block.quantised_linear("attn.wkv", x))
    quantiser = partial(simulate_act_quant, largest=block.numerics.fp8_max)
    return block.report("attn.kv", block.cached(rope(kv, positions, frequencies), quantiser))


def attend(block: Block, query: Tensor, keys: Tensor, rows: Tensor) -> Tensor:
    """Sparse attention [S, H, D] of the queries over ``keys`` [N, D] named by ``rows`` [S, K]."""
    sink = block.tensor("attn.attn_sink")
    return block.report("attn.sparse", sparse_attention(query, keys, sink, rows, block.config.head_dim**-0.5))


def project_output(block: Block, attended: Tensor, positions: Tensor, frequencies: Tensor) -> Tensor:
    """Attended values [S, H, D] -> [S, d]: rotate back, one low-rank projection per group of heads, then wo_b."""
    groups = block.config.o_groups
    unrotated = rope(attended, positions, frequencies, inverse=True)
    grouped = unrotated.flatten(1).unflatten(-1, (groups, -1)).unbind(1)
    weights = block.weights.decoded(f"{block.prefix}attn.wo_a").chunk(groups)
    low_rank = torch.cat([F.linear(x, weight) for x, weight in zip(grouped, weights, strict=True)], dim=-1)
    block.report("attn.output_a", low_rank)
    return block.report("attn.output", block.quantised_linear("attn.wo_b", low_rank))


def _window(forward: Forward, layer: int, kv: Tensor, window: int) -> tuple[Tensor, Tensor]:
    """Store the new rows; returns the window keys [N, D] and each query's row of slots, -1 for none.

    The order of the slots is the inference code's (model.py get_window_topk_idxs): it decides which slots share a
    block of the online softmax.
    """
    state = forward.state
    if forward.start == 0:
        state.windows[layer] = _first_ring(kv, window)
        return kv, _prompt_slots(forward.length, window)
    ring = state.windows[layer]
    ring[forward.start % window] = kv[0]
    return ring, _ring_slots(forward.start, window)


def _first_ring(kv: Tensor, window: int) -> Tensor:
    ring = kv.new_zeros(window, kv.shape[1])
    kept = torch.arange(max(len(kv) - window, 0), len(kv))
    ring[kept % window] = kv[kept]
    return ring


def _prompt_slots(length: int, window: int) -> Tensor:
    queries = torch.arange(length)[:, None]
    slots = (queries - window + 1).clamp_min(0) + torch.arange(min(length, window))
    return torch.where(slots > queries, -1, slots)


def _ring_slots(position: int, window: int) -> Tensor:
    """Slots of a decode step, oldest position first; a ring that is not full yet has holes."""
    slots = (position + 1 + torch.arange(window)) % window
    return torch.where(slots > position, -1, slots)[None]
