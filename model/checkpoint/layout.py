"""The tensors of a DeepSeek-V4.1 text checkpoint: every name with its stored dtype and shape.

Names, formats and shapes are those of the released safetensors files. A quantised linear is a pair ``X.weight``,
``X.scale``; scales are ue8m0 bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

import torch

from ..config import FP8_BLOCK, ModelConfig


@dataclass(frozen=True)
class TensorSpec:
    """Stored dtype and shape of one tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Bytes of data in the file."""
        return torch.Size(self.shape).numel() * self.dtype.itemsize


Tensors = dict[str, TensorSpec]


def expected_tensors(config: ModelConfig) -> Tensors:
    """Every tensor the text model reads, by canonical name, in file order."""
    vocabulary = (config.vocab_size, config.hidden_size)
    tensors = {"embed.weight": _bf16(*vocabulary), "head.weight": _bf16(*vocabulary)}
    tensors["norm.weight"] = _bf16(config.hidden_size)
    for layer in range(config.num_hidden_layers):
        tensors |= _prefixed(f"layers.{layer}.", _backbone_layer(config, layer))
    for stage in range(config.num_nextn_predict_layers):
        tensors |= _prefixed(f"mtp.{stage}.", _draft_stage(config, stage))
    return tensors


def _backbone_layer(config: ModelConfig, layer: int) -> Tensors:
    tensors = _block(config, config.n_routed_experts)
    if layer in config.kv_source_layer_ids:
        tensors |= _kv_source(config, config.compress_ratios[layer])
    if layer in config.index_source_layer_ids:
        tensors |= _index_source(config)
    if layer in config.engram_layer_ids:
        rows = config.engram_num_embeddings[config.engram_layer_ids.index(layer)]
        tensors |= _engram(config, rows)
    return tensors


def _draft_stage(config: ModelConfig, stage: int) -> Tensors:
    hidden, rank = config.hidden_size, config.dspark_markov_rank
    tensors = _block(config, config.dspark_n_routed_experts)
    if stage == 0:
        tensors |= _fp8("main_proj", hidden, len(config.dspark_target_layer_ids) * hidden)
        tensors["main_norm.weight"] = _bf16(hidden)
    if stage == config.num_nextn_predict_layers - 1:
        tensors["norm.weight"] = _bf16(hidden)
        tensors["markov_head.embed.weight"] = _bf16(config.vocab_size, rank)
        tensors["markov_head.head.weight"] = _bf16(config.vocab_size, rank)
        tensors["confidence_head.proj.weight"] = _bf16(1, hidden + rank)
    return tensors


def _block(config: ModelConfig, experts: int) -> Tensors:
    """Attention, hyper-connection and MoE tensors, common to backbone layers and draft stages."""
    return {
        **_prefixed("attn.", _attention(config)),
        "attn_norm.weight": _bf16(config.hidden_size),
        "ffn_norm.weight": _bf16(config.hidden_size),
        **_hyper_connection("hc_attn", config),
        **_hyper_connection("hc_ffn", config),
        **_prefixed("ffn.", _moe(config, experts)),
    }


def _attention(config: ModelConfig) -> Tensors:
    heads = config.num_attention_heads * config.head_dim
    output_rows = config.o_groups * config.o_lora_rank
    return {
        **_fp8("wq_a", config.q_lora_rank, config.hidden_size),
        **_fp8("wq_b", heads, config.q_lora_rank),
        **_fp8("wkv", config.head_dim, config.hidden_size),
        **_fp8("wo_a", output_rows, heads // config.o_groups),
        **_fp8("wo_b", config.hidden_size, output_rows),
        "q_norm.weight": _bf16(config.q_lora_rank),
        "kv_norm.weight": _bf16(config.head_dim),
        "attn_sink": _f32(config.num_attention_heads),
    }


def _hyper_connection(site: str, config: ModelConfig) -> Tensors:
    streams = config.hc_mult
    mixes = streams * (streams + 2)
    return {
        f"{site}_fn": _f32(mixes, streams * config.hidden_size),
        f"{site}_base": _f32(mixes),
        f"{site}_scale": _f32(3),
    }


def _moe(config: ModelConfig, experts: int) -> Tensors:
    hidden, inner = config.hidden_size, config.moe_intermediate_size
    tensors = {
        "gate.weight": _bf16(experts, hidden),
        "gate.bias": _f32(experts),
        "gate.bias_vl": _f32(experts),
    }
    for expert in range(experts):
        tensors |= _fp4(f"experts.{expert}.w1", inner, hidden)
        tensors |= _fp4(f"experts.{expert}.w2", hidden, inner)
        tensors |= _fp4(f"experts.{expert}.w3", inner, hidden)
    tensors |= _fp8("shared_experts.w1", inner, hidden)
    tensors |= _fp8("shared_experts.w2", hidden, inner)
    tensors |= _fp8("shared_experts.w3", inner, hidden)
    return tensors


def _kv_source(config: ModelConfig, ratio: int) -> Tensors:
    hidden, head, index = config.hidden_size, config.head_dim, config.index_head_dim
    tensors = {"attn.compressor.wkv.weight": _bf16(head, hidden)}
    if ratio > 1:
        tensors["attn.compressor.wgate.weight"] = _bf16(head, hidden)
    return tensors | {
        "attn.compressor.norm.weight": _bf16(head),
        "attn.indexer.wk.weight": _bf16(index, head),
        "attn.indexer.k_norm.weight": _bf16(index),
    }


def _index_source(config: ModelConfig) -> Tensors:
    return {
        **_fp8("attn.indexer.wq_b", config.index_n_heads * config.index_head_dim, config.q_lora_rank),
        "attn.indexer.weights_proj.weight": _bf16(config.index_n_heads, config.hidden_size),
    }


def _engram(config: ModelConfig, rows: int) -> Tensors:
    """The table has one scale per row and 32 columns, unlike the 32 x 32 blocks of other fp8 weights."""
    streams, hidden, width = config.hc_mult, config.hidden_size, config.engram_head_dim
    return {
        "engram.embed.weight": TensorSpec(torch.float8_e4m3fn, (rows, width)),
        "engram.embed.scale": TensorSpec(torch.float8_e8m0fnu, (rows, width // FP8_BLOCK)),
        **_fp8("engram.wkv", (streams + 1) * hidden, config.engram_columns() * width),
        "engram.q_weight": _bf16(streams, hidden),
        "engram.k_weight": _bf16(streams, hidden),
    }


def _prefixed(prefix: str, tensors: Tensors) -> Tensors:
    return {prefix + name: spec for name, spec in tensors.items()}


def _bf16(*shape: int) -> TensorSpec:
    return TensorSpec(torch.bfloat16, shape)


def _f32(*shape: int) -> TensorSpec:
    return TensorSpec(torch.float32, shape)


def _fp8(name: str, rows: int, columns: int) -> Tensors:
    """e4m3fn [rows, columns] with one scale per 32 x 32 block."""
    return {
        f"{name}.weight": TensorSpec(torch.float8_e4m3fn, (rows, columns)),
        f"{name}.scale": TensorSpec(torch.float8_e8m0fnu, (ceil(rows / FP8_BLOCK), ceil(columns / FP8_BLOCK))),
    }


def _fp4(name: str, rows: int, columns: int) -> Tensors:
    """Packed e2m1 as int8 [rows, columns / 2] with one scale per row and 32 columns."""
    return {
        f"{name}.weight": TensorSpec(torch.int8, (rows, columns // 2)),
        f"{name}.scale": TensorSpec(torch.float8_e8m0fnu, (rows, columns // FP8_BLOCK)),
    }
