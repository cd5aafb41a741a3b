"""The two made-up model sizes, as the ``config.json`` of a release would hold them.

``tiny`` keeps the real vocabulary, tokenizer and head sizes and one layer of every kind: plain window, engram, engram
and key-value source, reuse, candidate source, reindex. ``nano`` keeps the kinds and shrinks everything.
"""

from __future__ import annotations

from typing import Any

SIZES = ("tiny", "nano")

_SHARED: dict[str, Any] = {
    "model_type": "deepseek_v41_text",
    "hidden_act": "silu",
    "attention_bias": False,
    "tie_word_embeddings": False,
    "num_key_value_heads": 1,
    "n_shared_experts": 1,
    "scoring_func": "sqrtsoftplus",
    "topk_method": "noaux_tc",
    "norm_topk_prob": True,
    "routed_scaling_factor": 1.5,
    "swiglu_limit": 10.0,
    "rms_norm_eps": 1e-20,
    "max_position_embeddings": 4096,
    "rope_theta": 10000,
    "compress_rope_theta": 160000,
    "rope_scaling": {
        "rope_type": "yarn",
        "factor": 16,
        "beta_fast": 32,
        "beta_slow": 1,
        "original_max_position_embeddings": 65536,
    },
    "hc_mult": 4,
    "hc_sinkhorn_iters": 20,
    "hc_eps": 1e-6,
    "engram_max_ngram_size": 4,
    "engram_pad_token_id": 2,
    "num_nextn_predict_layers": 3,
    "dspark_block_size": 5,
}

_TINY: dict[str, Any] = {
    "vocab_size": 129280,
    "hidden_size": 1024,
    "num_hidden_layers": 10,
    "num_attention_heads": 8,
    "head_dim": 512,
    "qk_rope_head_dim": 64,
    "q_lora_rank": 256,
    "o_groups": 4,
    "o_lora_rank": 128,
    "moe_intermediate_size": 256,
    "n_routed_experts": 16,
    "num_experts_per_tok": 4,
    "sliding_window": 128,
    "compress_ratios": [0, 0, 2, 2, 2, 1, 1, 1, 1, 1, 0, 0, 0],
    "kv_source_layer_ids": [2, 4, 5],
    "index_source_layer_ids": [2, 4, 5, 7],
    "candidate_source_layer_id": 5,
    "candidate_topk_blocks": 32,
    "candidate_block_size": 8,
    "index_n_heads": 4,
    "index_head_dim": 128,
    "index_topk": 64,
    "engram_layer_ids": [1, 4],
    "engram_num_embeddings": [100776, 105808],
    "engram_vocab_size": 4096,
    "engram_n_heads": 8,
    "engram_head_dim": 256,
    "engram_compressed_vocab_size": 99092,
    "dspark_noise_token_id": 128799,
    "dspark_target_layer_ids": [7, 8, 9],
    "dspark_markov_rank": 64,
    "dspark_n_routed_experts": 8,
    "dspark_num_experts_per_tok": 2,
}

_NANO: dict[str, Any] = {
    "vocab_size": 384,
    "hidden_size": 128,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "head_dim": 64,
    "qk_rope_head_dim": 16,
    "q_lora_rank": 64,
    "o_groups": 2,
    "o_lora_rank": 32,
    "moe_intermediate_size": 32,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "sliding_window": 16,
    "compress_ratios": [0, 0, 2, 2, 2, 1, 1, 1, 0, 0, 0],
    "kv_source_layer_ids": [2, 4, 5],
    "index_source_layer_ids": [2, 4, 5, 7],
    "candidate_source_layer_id": 5,
    "candidate_topk_blocks": 3,
    "candidate_block_size": 8,
    "index_n_heads": 4,
    "index_head_dim": 32,
    "index_topk": 8,
    "engram_layer_ids": [1, 4],
    "engram_num_embeddings": [1362, 1552],
    "engram_vocab_size": 200,
    "engram_n_heads": 2,
    "engram_head_dim": 32,
    "engram_compressed_vocab_size": 288,
    "dspark_noise_token_id": 381,
    "dspark_target_layer_ids": [5, 6, 7],
    "dspark_markov_rank": 32,
    "dspark_n_routed_experts": 6,
    "dspark_num_experts_per_tok": 3,
}

_IMAGE_TOKENS = {"tiny": 129264, "nano": 380}


def config_json(size: str) -> dict[str, Any]:
    """The nested ``config.json`` of one of SIZES."""
    return {
        "architectures": ["DeepseekV41ForCausalLM"],
        "model_type": "deepseek_v41",
        "dtype": "bfloat16",
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 2,
        "image_token_id": _IMAGE_TOKENS[size],
        "text_config": _SHARED | (_TINY if size == "tiny" else _NANO),
        "vision_config": {"model_type": "deepseek_v41_vision", "num_hidden_layers": 0},
        "quantization_config": {
            "quant_method": "fp8",
            "activation_scheme": "dynamic",
            "weight_block_size": [32, 32],
            "scale_fmt": "ue8m0",
            "expert_dtype": "fp4",
        },
    }
