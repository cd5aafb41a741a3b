"""The text model's configuration, read from the nested Hugging Face ``config.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from ..errors import ConfigError

FP8_BLOCK = 32
"""Rows and columns that share one ue8m0 scale of an fp8 weight, and elements that share one of an activation."""


@dataclass(frozen=True)
class RopeScaling:
    """YaRN parameters (Peng et al. 2023, arXiv:2309.00071); applied on compressed layers only."""

    factor: float
    beta_fast: float
    beta_slow: float
    original_max_position_embeddings: int


@dataclass(frozen=True)
class ModelConfig:
    """One DeepSeek-V4.1 text backbone with its DSpark draft stages; names are the Hugging Face keys.

    ``compress_ratios`` has one entry per backbone layer followed by one per draft stage: 0 means a sliding
    window only, r > 0 adds one compressed row for every r tokens.
    """

    vocab_size: int
    hidden_size: int
    num_hidden_layers: int
    num_attention_heads: int
    head_dim: int
    qk_rope_head_dim: int
    q_lora_rank: int
    o_groups: int
    o_lora_rank: int
    moe_intermediate_size: int
    n_routed_experts: int
    num_experts_per_tok: int
    routed_scaling_factor: float
    swiglu_limit: float
    rms_norm_eps: float
    rope_theta: float
    compress_rope_theta: float
    rope_scaling: RopeScaling
    sliding_window: int
    compress_ratios: tuple[int, ...]
    kv_source_layer_ids: tuple[int, ...]
    index_source_layer_ids: tuple[int, ...]
    candidate_source_layer_id: int
    candidate_topk_blocks: int
    candidate_block_size: int
    index_n_heads: int
    index_head_dim: int
    index_topk: int
    hc_mult: int
    hc_sinkhorn_iters: int
    hc_eps: float
    engram_layer_ids: tuple[int, ...]
    engram_num_embeddings: tuple[int, ...]
    engram_vocab_size: int
    engram_max_ngram_size: int
    engram_n_heads: int
    engram_head_dim: int
    engram_pad_token_id: int
    engram_compressed_vocab_size: int
    num_nextn_predict_layers: int
    dspark_block_size: int
    dspark_noise_token_id: int
    dspark_target_layer_ids: tuple[int, ...]
    dspark_markov_rank: int
    dspark_n_routed_experts: int
    dspark_num_experts_per_tok: int
    max_position_embeddings: int
    image_token_id: int = -1
    bos_token_id: int = 0
    eos_token_id: int = 1
    pad_token_id: int = 2
    raw: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_directory(cls, directory: str | Path) -> ModelConfig:
        """Read ``directory/config.json``; raises ConfigError naming the file and every missing key."""
        path = Path(directory) / "config.json"
        try:
            raw = json.loads(path.read_text())
        except FileNotFoundError:
            raise ConfigError(
                f"{path} does not exist; a checkpoint directory needs it (`deepinfer-neuron tiny make DIR` makes one)"
            ) from None
        except (json.JSONDecodeError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path} is not JSON: {error}") from None
        return cls.from_dict(raw, str(path))

    @classmethod
    def from_dict(cls, raw: dict[str, Any], origin: str = "config") -> ModelConfig:
        """Build from the nested layout (``text_config`` under the root) and check the rules that tie keys together."""
        if not isinstance(raw, dict) or not isinstance(raw.get("text_config"), dict):
            raise ConfigError(f"{origin}: expected an object with a nested `text_config` (model_type deepseek_v41)")
        if raw.get("model_type") != "deepseek_v41":
            raise ConfigError(f"{origin}: model_type is {raw.get('model_type')!r}, expected 'deepseek_v41'")
        quantisation = raw.get("quantization_config")
        if not isinstance(quantisation, dict) or quantisation.get("weight_block_size") != [FP8_BLOCK, FP8_BLOCK]:
            raise ConfigError(f"{origin}: quantization_config must have weight_block_size {[FP8_BLOCK, FP8_BLOCK]}")
        known = {f.name: f for f in fields(cls) if f.name != "raw"}
        merged = {k: v for k, v in (raw | raw["text_config"]).items() if k in known}
        required = {name for name in known if name not in _OPTIONAL}
        missing = sorted(required - merged.keys())
        if missing:
            raise ConfigError(f"{origin}: missing keys in text_config: {', '.join(missing)}")
        mistyped = [f"{name} {value!r}" for name, value in merged.items() if not _fits(str(known[name].type), value)]
        if mistyped:
            raise ConfigError(f"{origin}: keys of the wrong type: {', '.join(mistyped)}")
        scaling = merged["rope_scaling"]
        merged["rope_scaling"] = RopeScaling(**{f.name: scaling[f.name] for f in fields(RopeScaling)})
        for name, value in merged.items():
            if isinstance(value, list):
                merged[name] = tuple(value)
        config = cls(**merged, raw=raw)
        config.validate(origin)
        return config

    def validate(self, origin: str = "config") -> None:
        """Raise ConfigError listing every broken rule, not just the first."""
        broken = [text for holds, text in self._rules() if not holds]
        if broken:
            raise ConfigError(f"{origin}: " + "; ".join(broken))

    def _rules(self) -> list[tuple[bool, str]]:
        layers = range(self.num_hidden_layers)
        ratios = self.compress_ratios
        sources_known = all(layer in layers for layer in (*self.kv_source_layer_ids, *self.index_source_layer_ids))
        rules = [
            (
                len(ratios) == self.num_hidden_layers + self.num_nextn_predict_layers,
                f"compress_ratios has {len(ratios)} entries, expected num_hidden_layers + num_nextn_predict_layers = "
                f"{self.num_hidden_layers + self.num_nextn_predict_layers}",
            ),
            (set(ratios) <= {0, 1, 2}, f"compress_ratios {sorted(set(ratios))} has values other than 0, 1, 2"),
            (
                set(self.kv_source_layer_ids) <= set(self.index_source_layer_ids),
                "kv_source_layer_ids must be a subset of index_source_layer_ids",
            ),
            (sources_known, "a kv or index source layer id is not a backbone layer"),
            (
                self.candidate_topk_blocks * self.candidate_block_size - (self.candidate_block_size - 1)
                >= self.index_topk,
                "candidate_topk_blocks * candidate_block_size - (candidate_block_size - 1) must reach index_topk",
            ),
            (
                self.candidate_source_layer_id in self.index_source_layer_ids,
                f"candidate_source_layer_id {self.candidate_source_layer_id} is not an index source layer",
            ),
            (
                len(self.engram_layer_ids) == len(self.engram_num_embeddings),
                "engram_layer_ids and engram_num_embeddings differ in length",
            ),
            (self.qk_rope_head_dim % 2 == 0, f"qk_rope_head_dim {self.qk_rope_head_dim} is odd"),
            (
                self.num_attention_heads % self.o_groups == 0,
                f"o_groups {self.o_groups} does not divide num_attention_heads {self.num_attention_heads}",
            ),
        ]
        rules += [
            (width % FP8_BLOCK == 0, f"{name} = {width} is not a multiple of the quantisation block {FP8_BLOCK}")
            for name, width in self._quantised_widths().items()
        ]
        if sources_known and len(ratios) >= self.num_hidden_layers:
            rules += [
                (
                    ratios[layer] == 0
                    or (self.kv_source(layer) is not None and ratios[self.kv_source(layer) or 0] == ratios[layer]),
                    f"layer {layer} has compress ratio {ratios[layer]} but no kv source of that ratio at or before it",
                )
                for layer in layers
            ]
        return rules

    def _quantised_widths(self) -> dict[str, int]:
        """Widths of everything that is quantised along its last dimension in blocks of FP8_BLOCK."""
        return {
            "hidden_size": self.hidden_size,
            "head_dim": self.head_dim,
            "q_lora_rank": self.q_lora_rank,
            "o_groups * o_lora_rank": self.o_groups * self.o_lora_rank,
            "moe_intermediate_size": self.moe_intermediate_size,
            "index_head_dim": self.index_head_dim,
            "engram_head_dim": self.engram_head_dim,
        }

    def kv_source(self, layer: int) -> int | None:
        """The layer whose compressed cache ``layer`` reads: the nearest kv source at or before it."""
        return max((source for source in self.kv_source_layer_ids if source <= layer), default=None)

    def engram_columns(self) -> int:
        """Table rows looked up per token and engram layer: one per n-gram size 2..max and head."""
        return (self.engram_max_ngram_size - 1) * self.engram_n_heads

    def rope_frequency_source(self, layer: int) -> tuple[float, RopeScaling | None]:
        """Theta and scaling of a layer: compressed layers use their own theta with YaRN, window layers neither."""
        if self.compress_ratios[layer]:
            return self.compress_rope_theta, self.rope_scaling
        return self.rope_theta, None


def _fits(annotation: str, value: object) -> bool:
    """Whether a JSON value is what a field of ModelConfig or RopeScaling is annotated with."""
    match annotation:
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "float":
            return isinstance(value, int | float) and not isinstance(value, bool)
        case "tuple[int, ...]":
            return isinstance(value, list) and all(_fits("int", item) for item in value)
        case "RopeScaling":
            return isinstance(value, dict) and all(_fits(str(f.type), value.get(f.name)) for f in fields(RopeScaling))
    return False


_OPTIONAL = {"image_token_id", "bos_token_id", "eos_token_id", "pad_token_id"}
