"""How one step reads and writes the caches: a batch of single tokens, or one request's whole prompt.

Both accesses answer the same questions, so the layers are written once. Row numbers are relative to a layer's first
row; a layer adds its own base.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from .kv_cache import KvCache

Observer = Callable[[str, Tensor], None]


@dataclass(frozen=True)
class Report:
    """Hands named intermediate values to an observer, if there is one."""

    observe: Observer | None
    prefix: str

    def __call__(self, name: str, value: Tensor) -> None:
        if self.observe is not None:
            self.observe(self.prefix + name, value)


PREFILL_QUERY_CHUNK = 128
"""Queries attended at a time in prefill; bounds the memory of gathered rows."""


@dataclass(frozen=True)
class CompressedRows:
    """Rows of one compress ratio r in this step.

    ``cached`` int32 [M or 1, T]: row of every group in order. ``visible`` int32 [M]: how many of them exist for a
    query. ``written`` int32 [groups]: rows this step writes. ``cos``, ``sin`` [groups, n]: rotation at the position of
    each written group's first token.
    """

    cached: Tensor
    visible: Tensor
    written: Tensor
    cos: Tensor
    sin: Tensor


@dataclass(frozen=True)
class RotaryTables:
    """cos and sin by position, float32 [positions, n], of window-only layers and of compressed layers."""

    window_cos: Tensor
    window_sin: Tensor
    compressed_cos: Tensor
    compressed_sin: Tensor

    def at(self, positions: Tensor, compressed: bool) -> tuple[Tensor, Tensor]:
        """cos and sin at int32 positions [M]: two [M, n]."""
        if compressed:
            return self.compressed_cos[positions], self.compressed_sin[positions]
        return self.window_cos[positions], self.window_sin[positions]


def _block_rows(block_tables: Tensor, rows_per_block: int, count: int) -> Tensor:
    """Rows 0..count-1 of requests with int32 block_tables [B, blocks]: [B, count]."""
    offsets = torch.arange(rows_per_block, dtype=torch.int32)
    return (block_tables.unsqueeze(-1) * rows_per_block + offsets).flatten(1)[:, :count]


class DecodeAccess:
    """One token for each of B requests at different positions; every shape is fixed by B and the cache geometry."""

    def __init__(
        self,
        cache: KvCache,
        window_size: int,
        tables: RotaryTables,
        positions: Tensor,
        block_tables: Tensor,
        window_blocks: Tensor,
        observe: Observer | None = None,
    ) -> None:
        """positions [B], block_tables [B, blocks_per_request], window_blocks [B], all int32."""
        self.cache = cache
        self.observe = observe
        self.positions = positions
        self.tables = tables
        self.block_tables = block_tables
        self.window_blocks = window_blocks
        slots = torch.arange(window_size, dtype=torch.int32)
        ring = window_blocks * window_size
        self.window_written = ring + positions % window_size
        # Oldest first, as the inference code orders a full ring: slot order decides which keys share a softmax block.
        oldest_first = (positions.unsqueeze(1) + 1 + slots) % window_size
        self.window_read = ring.unsqueeze(1) + oldest_first
        self.window_valid = positions.unsqueeze(1) - (window_size - 1) + slots >= 0
        self.rotation = {compressed: tables.at(positions, compressed) for compressed in (False, True)}

    def compressed_rows(self, ratio: int) -> CompressedRows:
        geometry = self.cache.geometry
        per_block = geometry.block_tokens // ratio
        cached = _block_rows(self.block_tables, per_block, geometry.max_context // ratio)
        group = self.positions // ratio
        scratch = geometry.scratch_block * per_block
        row = self.block_tables.gather(1, (group // per_block).long().unsqueeze(1))
        row = row.squeeze(1) * per_block + group % per_block
        written = torch.where((self.positions + 1) % ratio == 0, row, scratch)
        visible = (self.positions + 1) // ratio
        return CompressedRows(cached, visible, written, *self.tables.at(group * ratio, True))

    def query_chunks(self) -> list[slice]:
        return [slice(0, self.positions.shape[0])]

    def window_rows(self, base: Tensor, rows: Tensor) -> Callable[[slice], tuple[Tensor, Tensor]]:
        """Store this step's rows [B, D] of one layer; returns a function from a query slice to rows and validity."""
        self.cache.window.index_put_((base + self.window_written,), rows)
        gathered = self.cache.window[base + self.window_read]
        return lambda part: (gathered[part], self.window_valid[part])

    def pooled_groups(self, base: Tensor, values_and_gates: Tensor, ratio: int) -> Tensor:
        """Store [B, 2D] float32 in the group state and read the whole groups: [B, ratio, 2D]."""
        state = self.window_blocks * ratio
        self.cache.compressor_state.index_put_((base + state + self.positions % ratio,), values_and_gates)
        return self.cache.compressor_state[base + state.unsqueeze(1) + torch.arange(ratio, dtype=torch.int32)]


class PrefillAccess:
    """All S tokens of one request from position 0, run eagerly; fills the same pools that decode reads."""

    def __init__(
        self,
        cache: KvCache,
        window_size: int,
        tables: RotaryTables,
        length: int,
        block_table: Tensor,
        window_block: int,
        observe: Observer | None = None,
    ) -> None:
        """block_table int32 [blocks_per_request]."""
        self.cache = cache
        self.observe = observe
        self.length = length
        self.window_size = window_size
        self.window_block = window_block
        self.block_tables = block_table.unsqueeze(0)
        self.tables = tables
        self.positions = torch.arange(length, dtype=torch.int32)
        width = min(length, window_size)
        first = (self.positions - (window_size - 1)).clamp_min(0)
        read = first.unsqueeze(1) + torch.arange(width, dtype=torch.int32)
        self.window_valid = read <= self.positions.unsqueeze(1)
        self.window_read = read.clamp_max(length - 1)
        self.rotation = {compressed: tables.at(self.positions, compressed) for compressed in (False, True)}

    def compressed_rows(self, ratio: int) -> CompressedRows:
        per_block = self.cache.geometry.block_tokens // ratio
        groups = self.length // ratio
        cached = _block_rows(self.block_tables, per_block, groups)
        visible = (self.positions + 1) // ratio
        first_tokens = torch.arange(groups, dtype=torch.int32) * ratio
        return CompressedRows(cached, visible, cached[0], *self.tables.at(first_tokens, True))

    def query_chunks(self) -> list[slice]:
        return [
            slice(start, min(start + PREFILL_QUERY_CHUNK, self.length))
            for start in range(0, self.length, PREFILL_QUERY_CHUNK)
        ]

    def window_rows(self, base: Tensor, rows: Tensor) -> Callable[[slice], tuple[Tensor, Tensor]]:
        """Store the last rows of [S, D] in the ring; keys of a query come from the prompt itself."""
        kept = self.positions[-self.window_size :]
        written = base + self.window_block * self.window_size + kept % self.window_size
        self.cache.window.index_put_((written,), rows[-self.window_size :])
        return lambda part: (rows[self.window_read[part]], self.window_valid[part])

    def pooled_groups(self, base: Tensor, values_and_gates: Tensor, ratio: int) -> Tensor:
        """Group [S, 2D] float32 by ratio: [S // ratio, ratio, 2D]; tokens of an unfinished group stay in the state."""
        whole = self.length - self.length % ratio
        rest = values_and_gates[whole:]
        state = base + self.window_block * ratio + torch.arange(rest.shape[0], dtype=torch.int32)
        self.cache.compressor_state.index_put_((state,), rest)
        return values_and_gates[:whole].unflatten(0, (-1, ratio))
