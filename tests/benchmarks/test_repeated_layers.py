"""Configs with repeated layers: which layer is what, and what cannot be repeated."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.benchmarks.repeated_layers import repeat_layers, zero_model
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.model.checkpoint.sizes import config_json
from deepinfer_neuron.model.config import ModelConfig
from deepinfer_neuron.model.kv_cache import CacheGeometry


@pytest.fixture
def nano() -> ModelConfig:
    return ModelConfig.from_dict(config_json("nano"))


def test_once_is_the_config_itself(nano):
    assert repeat_layers(nano, 8) == nano


def test_runs_of_one_ratio_repeat_with_their_roles(nano):
    twice = repeat_layers(nano, 16)
    assert twice.compress_ratios == (0,) * 4 + (2,) * 6 + (1,) * 6 + (0, 0, 0)
    assert twice.kv_source_layer_ids == (4, 6, 7, 9, 10)
    assert twice.index_source_layer_ids == (4, 6, 7, 9, 10, 12, 15)
    assert twice.candidate_source_layer_id == 10
    assert twice.engram_layer_ids == (1, 3, 6, 9)
    assert twice.engram_num_embeddings == (1362, 1362, 1552, 1552)


@pytest.mark.parametrize("layers", [0, 4, 12])
def test_parts_of_a_config_are_refused(nano, layers):
    with pytest.raises(InputError, match="a multiple of the 8 layers"):
        repeat_layers(nano, layers)


def test_zero_weights_share_no_memory(nano):
    model = zero_model(repeat_layers(nano, 16), CacheGeometry.for_requests(64, 2))
    weights = list(model.parameters())
    assert len({weight.data_ptr() for weight in weights}) == len(weights)
    assert not any(torch.any(weight) for weight in weights)
