"""Configurations: good ones load, broken ones are refused with every reason."""

import json
from pathlib import Path

import pytest
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.model.checkpoint.sizes import SIZES, config_json
from deepinfer_neuron.model.config import ModelConfig

VECTORS = Path(__file__).parents[1] / "vectors"


def changed(**text_keys) -> dict:
    raw = config_json("nano")
    return raw | {"text_config": raw["text_config"] | text_keys}


@pytest.mark.parametrize("size", SIZES)
def test_the_made_up_sizes_are_valid(size):
    assert ModelConfig.from_dict(config_json(size)).num_nextn_predict_layers == 3


def test_an_independent_config_loads():
    config = ModelConfig.from_directory(VECTORS / "nano_b")
    assert config.rope_scaling.original_max_position_embeddings == 256
    assert config.compress_ratios == (0, 2, 2, 1, 1, 1, 0, 0)
    assert config.image_token_id > 0


def test_layers_read_the_nearest_source_at_or_before_them():
    config = ModelConfig.from_dict(config_json("nano"))
    assert [config.kv_source(layer) for layer in range(8)] == [None, None, 2, 2, 4, 5, 5, 5]


def test_only_compressed_layers_scale_their_rotation():
    config = ModelConfig.from_dict(config_json("nano"))
    assert config.rope_frequency_source(0) == (10000, None)
    assert config.rope_frequency_source(2) == (160000, config.rope_scaling)


@pytest.mark.parametrize(
    ("keys", "complaint"),
    [
        ({"compress_ratios": [0, 0, 2, 2, 2, 1, 1, 1, 0, 0]}, "compress_ratios has 10 entries"),
        ({"compress_ratios": [0, 0, 4, 4, 2, 1, 1, 1, 0, 0, 0]}, "values other than 0, 1, 2"),
        ({"kv_source_layer_ids": [2, 3, 4, 5]}, "subset of index_source_layer_ids"),
        ({"kv_source_layer_ids": [4, 5]}, "layer 2 has compress ratio 2 but no kv source"),
        ({"candidate_topk_blocks": 1}, "must reach index_topk"),
        ({"candidate_source_layer_id": 3}, "candidate_source_layer_id 3 is not an index source"),
        ({"engram_num_embeddings": [1362]}, "differ in length"),
        ({"o_groups": 3}, "o_groups 3 does not divide"),
        ({"qk_rope_head_dim": 15}, "qk_rope_head_dim 15 is odd"),
        ({"moe_intermediate_size": 48}, "moe_intermediate_size = 48 is not a multiple"),
        ({"hidden_size": "128"}, "wrong type: hidden_size '128'"),
        ({"hidden_size": True}, "wrong type: hidden_size True"),
        ({"compress_ratios": [0.5]}, "wrong type: compress_ratios"),
        ({"rope_scaling": {"factor": 16}}, "wrong type: rope_scaling"),
        ({"rope_scaling": None}, "wrong type: rope_scaling"),
    ],
)
def test_a_broken_rule_is_named(keys, complaint):
    with pytest.raises(ConfigError, match=complaint):
        ModelConfig.from_dict(changed(**keys))


def test_all_broken_rules_come_together():
    with pytest.raises(ConfigError, match="o_groups 3 does not divide") as caught:
        ModelConfig.from_dict(changed(o_groups=3, candidate_topk_blocks=1, qk_rope_head_dim=15))
    assert "must reach index_topk" in str(caught.value)
    assert "is odd" in str(caught.value)


def test_missing_keys_are_all_named():
    raw = changed()
    del raw["text_config"]["head_dim"], raw["text_config"]["vocab_size"]
    with pytest.raises(ConfigError, match="missing keys in text_config: head_dim, vocab_size"):
        ModelConfig.from_dict(raw)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"text_config": None}, "nested `text_config`"),
        ({"model_type": "deepseek_v4"}, "model_type is 'deepseek_v4'"),
        ({"quantization_config": {"weight_block_size": [128, 128]}}, "weight_block_size"),
        ({"quantization_config": None}, "weight_block_size"),
    ],
)
def test_another_model_or_quantisation_is_refused(change, complaint):
    with pytest.raises(ConfigError, match=complaint):
        ModelConfig.from_dict(changed() | change)


@pytest.mark.parametrize(("content", "complaint"), [("{", "is not JSON"), ("[]", "expected an object")])
def test_a_file_that_is_no_config_is_named(tmp_path, content, complaint):
    (tmp_path / "config.json").write_text(content)
    with pytest.raises(ConfigError, match=f"config\\.json.*{complaint}"):
        ModelConfig.from_directory(tmp_path)


def test_a_config_round_trips_through_its_file(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(config_json("tiny")))
    assert ModelConfig.from_directory(tmp_path) == ModelConfig.from_dict(config_json("tiny"))
