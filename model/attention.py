"""The attention sublayer: a sliding window plus selected compressed rows, one latent as key and value of all heads."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from .cache_access import CompressedRows, DecodeAccess, PrefillAccess, Report
from .config import ModelConfig
from .indexer import IndexKeys, IndexQuery, Published
from .kernels.compressor import gated_pool
from .kernels.linear import grouped_linear, quantized_linear
from .kernels.normalization import rms_norm
from .kernels.quantization import quantize_fp4_fine, quantize_fp8
from .kernels.rotary import rotate
from .kernels.sparse_attention import sparse_attention
from .kv_cache import KvCache
from .numerics import Numerics
from .parameters import weight


class Compressor(nn.Module):
    """Makes one latent from every group of r tokens; kv sources only."""

    def __init__(self, config: ModelConfig, layer: int, cache: KvCache, numerics: Numerics) -> None:
        super().__init__()
        self.ratio = config.compress_ratios[layer]
        self.dtype = numerics.dtype
        self.eps = config.rms_norm_eps
        grouped = self.ratio > 1
        precision = torch.float32 if grouped else numerics.dtype
        self.wkv = weight(config.head_dim, config.hidden_size, dtype=precision)
        self.norm = weight(config.head_dim, dtype=torch.bfloat16)
        if grouped:
            self.wgate = weight(config.head_dim, config.hidden_size, dtype=precision)
            self.register_buffer("state_base", _row(cache.state_base[layer]), persistent=False)

    def forward(self, x: Tensor, access: DecodeAccess | PrefillAccess) -> Tensor:
        """x [M, d] to latents [groups, head_dim], not yet rotated."""
        if self.ratio == 1:
            return rms_norm(functional.linear(x, self.wkv), self.norm, self.eps)
        wide = x.float()
        values_and_gates = torch.cat((functional.linear(wide, self.wkv), functional.linear(wide, self.wgate)), -1)
        groups = access.pooled_groups(self.get_buffer("state_base"), values_and_gates, self.ratio)
        values, gates = groups.chunk(2, -1)
        return rms_norm(gated_pool(values, gates, self.dtype), self.norm, self.eps)


class Attention(nn.Module):
    """One layer's attention; which parts it has follows from the layer's roles in the config."""

    def __init__(self, config: ModelConfig, layer: int, cache: KvCache, numerics: Numerics) -> None:
        super().__init__()
        heads, width, dtype = config.num_attention_heads, config.head_dim, numerics.dtype
        group_width = heads * width // config.o_groups
        self.wq_a = weight(config.q_lora_rank, config.hidden_size, dtype=dtype)
        self.q_norm = weight(config.q_lora_rank, dtype=torch.bfloat16)
        self.wq_b = weight(heads * width, config.q_lora_rank, dtype=dtype)
        self.wkv = weight(width, config.hidden_size, dtype=dtype)
        self.kv_norm = weight(width, dtype=torch.bfloat16)
        self.attn_sink = weight(heads, dtype=torch.float32)
        self.wo_a = weight(config.o_groups, config.o_lora_rank, group_width, dtype=dtype)
        self.wo_b = weight(config.hidden_size, config.o_groups * config.o_lora_rank, dtype=dtype)
        self.heads = heads
        self.groups = config.o_groups
        self.scale = width**-0.5
        self.eps = config.rms_norm_eps
        self.numerics = numerics
        self.ratio = config.compress_ratios[layer]
        self.register_buffer("window_base", _row(cache.window_base[layer]), persistent=False)
        if self.ratio:
            source = config.kv_source(layer)
            assert source is not None
            self.register_buffer("compressed_base", _row(cache.compressed_base[source]), persistent=False)
        self.compressor: Compressor | None = None
        self.index_keys: IndexKeys | None = None
        self.indexer: IndexQuery | None = None
        if layer in config.kv_source_layer_ids:
            self.compressor = Compressor(config, layer, cache, numerics)
            self.index_keys = IndexKeys(config, numerics)
        if layer in config.index_source_layer_ids:
            self.indexer = IndexQuery(config, layer, numerics)

    def forward(
        self,
        x: Tensor,
        access: DecodeAccess | PrefillAccess,
        rows: dict[int, CompressedRows],
        published: Published,
        report: Report,
    ) -> Tensor:
        """x [M, d] to [M, d]; reads and writes the caches through ``access``; ``rows`` by compress ratio."""
        cos, sin = access.rotation[self.ratio > 0]
        q_lora = rms_norm(quantized_linear(x, self.wq_a, self.numerics.linear_fp8_max), self.q_norm, self.eps)
        query = quantized_linear(q_lora, self.wq_b, self.numerics.linear_fp8_max).unflatten(-1, (self.heads, -1))
        query = rotate(query, cos, sin, False)
        window = self._window_row(x, cos, sin)
        read_window = access.window_rows(self.get_buffer("window_base"), window)
        report("attn.q_lora", q_lora)
        report("attn.q", query)
        report("attn.kv", window)
        if self.ratio:
            self._compress(x, q_lora, access, rows[self.ratio], published, report)
        outputs = [
            self._attend(query[part], *read_window(part), part, access.cache, published)
            for part in access.query_chunks()
        ]
        attended = outputs[0] if len(outputs) == 1 else torch.cat(outputs)
        report("attn.sparse", attended)
        return self._project(attended, cos, sin, report)

    def _window_row(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        row = rms_norm(quantized_linear(x, self.wkv, self.numerics.linear_fp8_max), self.kv_norm, self.eps)
        row = rotate(row, cos, sin, False)
        return quantize_fp8(row, self.numerics.fp8_max) if self.numerics.kv_quant else row

    def _compress(
        self,
        x: Tensor,
        q_lora: Tensor,
        access: DecodeAccess | PrefillAccess,
        rows: CompressedRows,
        published: Published,
        report: Report,
    ) -> None:
        base = self.get_buffer("compressed_base")
        if self.compressor is not None and self.index_keys is not None:
            latent = self.compressor(x, access)
            key = self.index_keys(latent, rows)
            latent = rotate(latent, rows.cos, rows.sin, False)
            latent = quantize_fp4_fine(latent, self.numerics.fp8_max) if self.numerics.kv_quant else latent
            access.cache.index_key.index_put_((base + rows.written,), key)
            access.cache.compressed.index_put_((base + rows.written,), latent)
            report("attn.latent", latent)
            report("attn.index_key", key)
        if self.indexer is not None:
            keys = access.cache.index_key[base + rows.cached]
            self.indexer(x, q_lora, keys, rows, access, published, report)
            published.rows = _selected_rows(base, rows.cached, published.selection)

    def _attend(
        self,
        query: Tensor,
        window: Tensor,
        window_valid: Tensor,
        part: slice,
        cache: KvCache,
        published: Published,
    ) -> Tensor:
        keys, valid = window, window_valid
        if self.ratio and published.rows is not None and published.selection is not None:
            keys = torch.cat((keys, cache.compressed[published.rows[part]]), 1)
            valid = torch.cat((valid, published.selection[part] >= 0), 1)
        return sparse_attention(query, keys, valid, self.attn_sink, self.scale)

    def _project(self, attended: Tensor, cos: Tensor, sin: Tensor, report: Report) -> Tensor:
        heads = rotate(attended, cos, sin, True)
        low_rank = grouped_linear(heads.flatten(1).unflatten(-1, (self.groups, -1)), self.wo_a).flatten(1)
        output = quantized_linear(low_rank, self.wo_b, self.numerics.linear_fp8_max)
        report("attn.output_a", low_rank)
        report("attn.output", output)
        return output


def _selected_rows(base: Tensor, cached: Tensor, selection: Tensor | None) -> Tensor | None:
    """Pool rows int32 [M, k] of selected positions, any row for none; cached [M or 1, T], None if T is 0."""
    if selection is None or not cached.shape[1]:
        return None
    return base + cached.expand(selection.shape[0], -1).gather(1, selection.clamp_min(0).long())


def _row(number: int) -> Tensor:
    return torch.tensor(number, dtype=torch.int32)
