"""The table of expected tensors at the released model's full size."""

import torch
from deepinfer_neuron.model.checkpoint.layout import TensorSpec, expected_tensors
from deepinfer_neuron.model.checkpoint.sizes import config_json
from deepinfer_neuron.model.config import ModelConfig

RELEASED = {
    "hidden_size": 5120,
    "num_hidden_layers": 40,
    "num_attention_heads": 64,
    "q_lora_rank": 1280,
    "o_groups": 8,
    "o_lora_rank": 1024,
    "moe_intermediate_size": 2304,
    "n_routed_experts": 384,
    "num_experts_per_tok": 6,
    "max_position_embeddings": 1048576,
    "compress_ratios": [0] * 2 + [2] * 18 + [1] * 20 + [0] * 3,
    "kv_source_layer_ids": [2, 8, 14, 20],
    "index_source_layer_ids": [2, 8, 14, 20, 24, 28, 32, 36],
    "candidate_source_layer_id": 20,
    "candidate_topk_blocks": 2048,
    "index_n_heads": 32,
    "index_topk": 512,
    "engram_layer_ids": [1, 14],
    "engram_num_embeddings": [384006168, 384016682],
    "engram_vocab_size": 16000000,
    "dspark_target_layer_ids": [37, 38, 39],
    "dspark_markov_rank": 256,
    "dspark_n_routed_experts": 128,
    "dspark_num_experts_per_tok": 3,
}


def released_tensors() -> dict[str, TensorSpec]:
    raw = config_json("tiny")
    return expected_tensors(ModelConfig.from_dict(raw | {"text_config": raw["text_config"] | RELEASED}))


def test_the_released_model_has_its_published_shapes():
    tensors = released_tensors()
    fp8, ue8m0 = torch.float8_e4m3fn, torch.float8_e8m0fnu
    assert tensors["layers.0.attn.wo_a.weight"] == TensorSpec(fp8, (8192, 4096))
    assert tensors["layers.39.ffn.experts.383.w2.weight"] == TensorSpec(torch.int8, (5120, 1152))
    assert tensors["layers.39.ffn.experts.383.w2.scale"] == TensorSpec(ue8m0, (5120, 72))
    assert tensors["layers.14.engram.embed.scale"] == TensorSpec(ue8m0, (384016682, 8))
    assert tensors["layers.14.engram.wkv.weight"] == TensorSpec(fp8, (25600, 6144))
    assert tensors["layers.0.hc_ffn_fn"] == TensorSpec(torch.float32, (24, 20480))
    assert tensors["mtp.0.main_proj.weight"] == TensorSpec(fp8, (5120, 15360))
    assert tensors["mtp.2.confidence_head.proj.weight"] == TensorSpec(torch.bfloat16, (1, 5376))


def test_the_released_model_has_its_published_size():
    """The release has 96085 tensors and 510.3 GB, of which the vision tower is 266 and 1 GB."""
    tensors = released_tensors()
    assert len(tensors) == 95819
    assert round(sum(spec.nbytes for spec in tensors.values()) / 1e9) == 509


def test_only_owners_have_compressors_indexers_and_engrams():
    tensors = released_tensors()

    def owners(part: str) -> list[int]:
        return [layer for layer in range(40) if f"layers.{layer}.{part}" in tensors]

    assert owners("attn.compressor.wkv.weight") == owners("attn.indexer.wk.weight") == [2, 8, 14, 20]
    assert owners("attn.compressor.wgate.weight") == [2, 8, 14]
    assert owners("attn.indexer.wq_b.weight") == [2, 8, 14, 20, 24, 28, 32, 36]
    assert owners("engram.q_weight") == [1, 14]
