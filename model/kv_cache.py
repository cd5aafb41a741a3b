"""The cache roots of the decode step and who owns which rows of them.

Every cache kind is one root tensor of rows. A request owns one window block (the ring of its last tokens), and a list
of token blocks that hold its compressed rows. One more block of each kind, past the pool, takes what padding rows
write.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import ConfigError
from ..runtime.memory import aligned_empty
from ..settings import settings
from .config import ModelConfig
from .numerics import Numerics


@dataclass(frozen=True)
class CacheGeometry:
    """Sizes of the pools.

    ``max_context`` tokens for one request, ``max_requests`` of them at once, ``num_blocks`` blocks of ``block_tokens``
    tokens shared by all.
    """

    max_context: int
    max_requests: int
    num_blocks: int
    block_tokens: int = 64

    def __post_init__(self) -> None:
        if min(self.max_context, self.max_requests, self.num_blocks, self.block_tokens) < 1:
            raise ConfigError(f"{self}: every size must be at least 1")
        if self.block_tokens % 2:
            raise ConfigError(f"block_tokens {self.block_tokens} must be even: a compressed row can span two tokens")

    @classmethod
    def for_requests(cls, max_context: int, max_requests: int, block_tokens: int = 64) -> CacheGeometry:
        """Just enough blocks for every request to reach ``max_context``, or as many as the environment asks for."""
        enough = -(-max_context // block_tokens) * max_requests
        return cls(max_context, max_requests, settings().num_kv_blocks or enough, block_tokens)

    @property
    def blocks_per_request(self) -> int:
        return -(-self.max_context // self.block_tokens)

    @property
    def scratch_block(self) -> int:
        """The token block that padding rows write to."""
        return self.num_blocks

    @property
    def scratch_window(self) -> int:
        """The window block that padding rows write to."""
        return self.max_requests


class KvCache(nn.Module):
    """The roots, each [rows, width], and the first row of every layer in them.

    ``window``: head_dim-wide rows of every layer's ring. ``compressed`` and ``index_key``: one row for every r tokens
    of each kv source, same row numbers in both. ``compressor_state``: float32 values and gates of the tokens of an
    unfinished group, for kv sources with r > 1.
    """

    window: Tensor
    compressed: Tensor
    index_key: Tensor
    compressor_state: Tensor

    def __init__(self, config: ModelConfig, geometry: CacheGeometry, numerics: Numerics) -> None:
        super().__init__()
        self.geometry = geometry
        window_rows = (geometry.max_requests + 1) * config.sliding_window
        self.window_base = {layer: layer * window_rows for layer in range(config.num_hidden_layers)}
        self.compressed_base: dict[int, int] = {}
        self.state_base: dict[int, int] = {}
        compressed_rows = state_rows = 0
        for layer in config.kv_source_layer_ids:
            ratio = config.compress_ratios[layer]
            self.compressed_base[layer] = compressed_rows
            compressed_rows += (geometry.num_blocks + 1) * (geometry.block_tokens // ratio)
            if ratio > 1:
                self.state_base[layer] = state_rows
                state_rows += (geometry.max_requests + 1) * ratio
        dtype = numerics.dtype
        self._root("window", config.num_hidden_layers * window_rows, config.head_dim, dtype)
        self._root("compressed", compressed_rows, config.head_dim, dtype)
        self._root("index_key", compressed_rows, config.index_head_dim, dtype)
        self._root("compressor_state", state_rows, 2 * config.head_dim, torch.float32)

    def _root(self, name: str, rows: int, width: int, dtype: torch.dtype) -> None:
        self.register_buffer(name, aligned_empty((rows, width), dtype).zero_(), persistent=False)

    def reset(self) -> None:
        """Zero every root in place."""
        for root in self.buffers():
            root.zero_()

    def snapshot(self) -> dict[str, Tensor]:
        """A copy of every root by name."""
        return {name: root.clone() for name, root in self.named_buffers()}

    def restore(self, snapshot: Mapping[str, Tensor]) -> None:
        """Copy a snapshot back into the roots, whose memory stays where it is."""
        for name, root in self.named_buffers():
            root.copy_(snapshot[name])
