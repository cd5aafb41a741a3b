"""DeepSeek-V4.1 written compile-safe: every shape of a decode step is fixed, every position is a tensor."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..passes.stage_boundary import stage_boundary
from ..runtime.slots import PaddingPolicy, SlotSpec
from .attention import Attention
from .cache_access import CompressedRows, DecodeAccess, Observer, PrefillAccess, Report, RotaryTables
from .config import ModelConfig
from .engram import Engram
from .hyper_connection import HyperConnection
from .indexer import Published
from .kernels.hyper_connection import hyper_connection_collapse, hyper_connection_expand
from .kernels.normalization import rms_norm
from .kernels.rotary import rotation_tables
from .kv_cache import CacheGeometry, KvCache
from .moe import MixtureOfExperts
from .numerics import Numerics
from .parameters import weight


class DecodeLayer(nn.Module):
    """One backbone layer: engram if it has one, attention, mixture of experts."""

    def __init__(self, config: ModelConfig, layer: int, cache: KvCache, numerics: Numerics) -> None:
        super().__init__()
        self.layer = layer
        self.eps = config.rms_norm_eps
        self.hc_attn = HyperConnection(config)
        self.hc_ffn = HyperConnection(config)
        self.attn_norm = weight(config.hidden_size, dtype=torch.bfloat16)
        self.ffn_norm = weight(config.hidden_size, dtype=torch.bfloat16)
        self.attn = Attention(config, layer, cache, numerics)
        self.ffn = MixtureOfExperts(config, numerics)
        self.engram = Engram(config, numerics) if layer in config.engram_layer_ids else None
        self.engram_index = config.engram_layer_ids.index(layer) if self.engram else 0

    def forward(
        self,
        streams: Tensor,
        pre: Tensor,
        engram_rows: Sequence[Tensor],
        access: DecodeAccess | PrefillAccess,
        rows: dict[int, CompressedRows],
        published: Published,
    ) -> tuple[Tensor, Tensor]:
        """streams [M, n, d] and the collapse weights [M, n] left by the layer before; returns both for the next.

        ``engram_rows``: [M, width] for each engram layer.
        """
        report = Report(access.observe, f"layers.{self.layer}.")
        if self.engram is not None:
            streams = self.engram(streams, engram_rows[self.engram_index])
            report("engram", streams)
            streams, pre = stage_boundary(f"{report.prefix}engram", streams, pre)
        attn_pre, attn_post, attn_comb = self._mix(self.hc_attn, streams, "attn", report)
        collapsed = hyper_connection_collapse(streams, pre)
        normalised = rms_norm(collapsed, self.attn_norm, self.eps)
        report("attn.collapse", collapsed)
        report("attn.norm", normalised)
        output = self.attn(normalised, access, rows, published, report)
        streams = hyper_connection_expand(output, streams, attn_post, attn_comb)
        report("attn.expand", streams)
        streams, attn_pre = stage_boundary(f"{report.prefix}attention", streams, attn_pre)
        ffn_pre, ffn_post, ffn_comb = self._mix(self.hc_ffn, streams, "ffn", report)
        # A sublayer's own collapse weights are used by the next sublayer, not by itself.
        collapsed = hyper_connection_collapse(streams, attn_pre)
        normalised = rms_norm(collapsed, self.ffn_norm, self.eps)
        report("ffn.collapse", collapsed)
        report("ffn.norm", normalised)
        streams = hyper_connection_expand(self.ffn(normalised, report), streams, ffn_post, ffn_comb)
        report("ffn.expand", streams)
        streams, ffn_pre = stage_boundary(f"{report.prefix}experts", streams, ffn_pre)
        return streams, ffn_pre

    def _mix(self, site: HyperConnection, streams: Tensor, name: str, report: Report) -> tuple[Tensor, Tensor, Tensor]:
        pre, post, comb = site(streams)
        report(f"{name}.mix.pre", pre)
        report(f"{name}.mix.post", post)
        report(f"{name}.mix.comb", comb)
        return pre, post, comb


class DecodeModel(nn.Module):
    """The text backbone with its caches. ``forward`` is one decode step of a batch; ``prefill`` takes one prompt."""

    def __init__(self, config: ModelConfig, geometry: CacheGeometry, numerics: Numerics | None = None) -> None:
        super().__init__()
        numerics = numerics or Numerics()
        self.config = config
        self.geometry = geometry
        self.numerics = numerics
        self.cache = KvCache(config, geometry, numerics)
        self.embed = weight(config.vocab_size, config.hidden_size, dtype=numerics.dtype)
        self.layers = nn.ModuleList(
            DecodeLayer(config, layer, self.cache, numerics) for layer in range(config.num_hidden_layers)
        )
        self.norm = weight(config.hidden_size, dtype=torch.bfloat16)
        self.head = weight(config.vocab_size, config.hidden_size, dtype=torch.float32)
        first_collapse = torch.tensor([1.0] + [0.0] * (config.hc_mult - 1))
        self.register_buffer("first_collapse", first_collapse, persistent=False)
        for kind, layer_ratio in (("window", 0), ("compressed", 1)):
            theta, scaling = (
                (config.compress_rope_theta, config.rope_scaling) if layer_ratio else (config.rope_theta, None)
            )
            cos, sin = rotation_tables(theta, config.qk_rope_head_dim, scaling, geometry.max_context)
            self.register_buffer(f"{kind}_cos", cos, persistent=False)
            self.register_buffer(f"{kind}_sin", sin, persistent=False)

    @property
    def decode_slots(self) -> tuple[SlotSpec, ...]:
        """The inputs of ``forward``, one row a request; padding rows write to the scratch blocks only."""
        geometry, config = self.geometry, self.config
        engram_width = config.engram_columns() * config.engram_head_dim
        return (
            SlotSpec("input_ids", torch.int32, (), PaddingPolicy.fill(0), index=True, maximum=config.vocab_size - 1),
            SlotSpec("positions", torch.int32, (), PaddingPolicy.fill(0), index=True, maximum=geometry.max_context - 1),
            SlotSpec(
                "block_tables",
                torch.int32,
                (geometry.blocks_per_request,),
                PaddingPolicy.fill(geometry.scratch_block),
                index=True,
                maximum=geometry.scratch_block,
            ),
            SlotSpec(
                "window_blocks",
                torch.int32,
                (),
                PaddingPolicy.fill(geometry.scratch_window),
                index=True,
                maximum=geometry.scratch_window,
            ),
            SlotSpec("engram_rows", self.numerics.dtype, (len(config.engram_layer_ids), engram_width)),
        )

    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        block_tables: Tensor,
        window_blocks: Tensor,
        engram_rows: Tensor,
        observe: Observer | None = None,
    ) -> Tensor:
        """Logits float32 [B, vocab] of the next token; the inputs are those of ``decode_slots``.

        ``observe`` receives named intermediate values in eager runs, under the names the reference uses.
        """
        access = DecodeAccess(
            self.cache, self.config.sliding_window, self._tables(), positions, block_tables, window_blocks, observe
        )
        return self._run(input_ids, engram_rows, access)

    @torch.no_grad()
    def prefill(
        self,
        token_ids: Tensor,
        engram_rows: Tensor,
        block_table: Tensor,
        window_block: int,
        observe: Observer | None = None,
    ) -> Tensor:
        """Fill the caches of one request with token_ids int32 [S] from position 0; logits of the last: [vocab]."""
        access = PrefillAccess(
            self.cache,
            self.config.sliding_window,
            self._tables(),
            token_ids.shape[0],
            block_table,
            window_block,
            observe,
        )
        return self._run(token_ids, engram_rows, access, last_only=True)[0]

    def _tables(self) -> RotaryTables:
        names = ("window_cos", "window_sin", "compressed_cos", "compressed_sin")
        return RotaryTables(*(self.get_buffer(name) for name in names))

    def _run(
        self, token_ids: Tensor, engram_rows: Tensor, access: DecodeAccess | PrefillAccess, last_only: bool = False
    ) -> Tensor:
        config = self.config
        report = Report(access.observe, "")
        embedded = functional.embedding(token_ids, self.embed)
        streams = embedded.unsqueeze(1).expand(-1, config.hc_mult, -1)
        pre = self.get_buffer("first_collapse").expand(token_ids.shape[0], -1)
        rows = {ratio: access.compressed_rows(ratio) for ratio in sorted(set(config.compress_ratios) - {0})}
        published = Published()
        report("embed", embedded)
        streams, pre, *rows_by_layer = stage_boundary("embed", streams, pre, *engram_rows.unbind(1))
        for layer in self.layers:
            streams, pre = layer(streams, pre, rows_by_layer, access, rows, published)
        if last_only:
            streams, pre = streams[-1:], pre[-1:]
        collapsed = hyper_connection_collapse(streams, pre)
        normalised = rms_norm(collapsed, self.norm, config.rms_norm_eps)
        logits = functional.linear(normalised.float(), self.head)
        report("final.collapse", collapsed)
        report("final.norm", normalised)
        report("logits", logits)
        return logits
