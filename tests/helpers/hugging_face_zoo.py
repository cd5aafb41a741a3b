"""One tiny model with random weights of each of many ``transformers`` families, and a call that each of them takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PreTrainedModel

SIZES = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GROUPED = {"num_key_value_heads": 2}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
MANY_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
MAMBA = {"mamba_n_heads": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_n_groups": 1, "mamba_chunk_size": 8}


@dataclass(frozen=True)
class Family:
    """A ``model_type`` of ``transformers``, the values of its config beside ``SIZES``, and the class that loads it."""

    model_type: str
    values: Mapping[str, Any] = field(default_factory=dict)
    auto: type = AutoModelForCausalLM

    def model(self, **changes: Any) -> PreTrainedModel:
        """The same weights each time; ``changes`` are values of the config too."""
        config = AutoConfig.for_model(self.model_type, **{**SIZES, **self.values, **changes})
        with torch.random.fork_rng():
            torch.manual_seed(0)
            return self.auto.from_config(config).eval()

    def inputs(self) -> tuple[Tensor, ...]:
        """Ids of two texts of seven tokens."""
        ids = torch.randint(3, SIZES["vocab_size"], (2, 7), generator=torch.Generator().manual_seed(1))
        return (ids,)


ZOO: Mapping[str, Family] = {
    one.model_type: one
    for one in (
        Family("llama", GROUPED),
        Family("mistral", {**GROUPED, "sliding_window": 4}),
        Family("qwen2", GROUPED),
        Family("qwen3", {**GROUPED, "head_dim": 8}),
        Family("gemma2", {**GROUPED, "head_dim": 8, "sliding_window": 4}),
        Family("gemma3_text", {**GROUPED, "head_dim": 8, "sliding_window": 4}),
        Family("phi"),
        Family("phi3", GROUPED),
        Family("olmo2", GROUPED),
        Family("granite", GROUPED),
        Family("cohere", GROUPED),
        Family("stablelm", GROUPED),
        Family("starcoder2", GROUPED),
        Family("glm4", {**GROUPED, "head_dim": 8}),
        Family("gpt2"),
        Family("gpt_neox"),
        Family("gptj", {"rotary_dim": 4}),
        Family("falcon"),
        Family("bloom"),
        Family("opt", {"ffn_dim": 48, "word_embed_proj_dim": 32}),
        Family("mixtral", {**GROUPED, **EXPERTS}),
        Family("gpt_oss", {**GROUPED, **EXPERTS, "head_dim": 8, "sliding_window": 4}),
        Family("qwen2_moe", {**GROUPED, **MANY_EXPERTS, "shared_expert_intermediate_size": 16}),
        Family("qwen3_moe", {**GROUPED, **MANY_EXPERTS, "head_dim": 8}),
        Family(
            "deepseek_v3",
            {
                "num_key_value_heads": 4,
                "n_routed_experts": 8,
                "n_group": 2,
                "topk_group": 1,
                "num_experts_per_tok": 2,
                "moe_intermediate_size": 16,
                "first_k_dense_replace": 1,
                "q_lora_rank": 12,
                "kv_lora_rank": 16,
                "qk_rope_head_dim": 4,
                "qk_nope_head_dim": 8,
                "v_head_dim": 10,
            },
        ),
        Family(
            "qwen3_next",
            {
                **GROUPED,
                **MANY_EXPERTS,
                "head_dim": 8,
                "shared_expert_intermediate_size": 16,
                "linear_num_key_heads": 2,
                "linear_num_value_heads": 4,
                "linear_key_head_dim": 8,
                "linear_value_head_dim": 8,
                "layer_types": ["linear_attention", "full_attention"],
            },
        ),
        Family("mamba", {"state_size": 8}),
        Family("mamba2", {"num_heads": 8, "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 4}),
        Family("bamba", {**GROUPED, **MAMBA, "attn_layer_indices": [1], "mamba_expand": 2}),
        Family("falcon_h1", {**GROUPED, **MAMBA, "mamba_d_ssm": 64}),
        Family(
            "jamba",
            {
                **GROUPED,
                "attn_layer_period": 2,
                "attn_layer_offset": 1,
                "expert_layer_period": 2,
                "expert_layer_offset": 1,
                "num_experts": 4,
                "num_experts_per_tok": 2,
                "mamba_d_state": 8,
                "mamba_dt_rank": 4,
                "use_mamba_kernels": False,
            },
        ),
        Family("bert", auto=AutoModel),
        Family("distilbert", {"hidden_dim": 48}, auto=AutoModel),
        Family("modernbert", auto=AutoModel),
    )
}
