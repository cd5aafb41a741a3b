"""Pools: sizes, alignment, snapshots."""

import pytest
import torch
from deepinfer_neuron import settings as settings_module
from deepinfer_neuron.errors import ConfigError
from deepinfer_neuron.model.config import ModelConfig
from deepinfer_neuron.model.kv_cache import CacheGeometry, KvCache
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.settings import Settings


@pytest.fixture
def cache(nano_a):
    return KvCache(ModelConfig.from_directory(nano_a), CacheGeometry.for_requests(48, 2, 8), Numerics())


def test_every_root_starts_on_a_64_byte_boundary(cache):
    assert all(root.data_ptr() % 64 == 0 and root.is_contiguous() for root in cache.buffers())
    assert {root.dtype for root in cache.buffers()} == {torch.bfloat16, torch.float32}


def test_rows_of_layers_do_not_overlap(cache):
    size = (2 + 1) * 16
    assert [cache.window_base[layer] for layer in range(8)] == [layer * size for layer in range(8)]
    assert len(cache.window) == 8 * size
    blocks = 2 * 6 + 1
    assert cache.compressed_base == {2: 0, 4: blocks * 4, 5: 2 * blocks * 4}
    assert len(cache.compressed) == len(cache.index_key) == 2 * blocks * 4 + blocks * 8
    assert cache.state_base == {2: 0, 4: 3 * 2}
    assert len(cache.compressor_state) == 2 * 3 * 2


def test_a_snapshot_is_restored_in_place(cache):
    cache.window.normal_()
    before = cache.snapshot()
    pointers = [root.data_ptr() for root in cache.buffers()]
    cache.reset()
    assert not cache.window.any()
    cache.restore(before)
    assert torch.equal(cache.window, before["window"])
    assert [root.data_ptr() for root in cache.buffers()] == pointers


def test_the_environment_sets_the_number_of_blocks(monkeypatch):
    environment = {"DEEPINFER_NEURON_NUM_KV_BLOCKS": "7"}
    monkeypatch.setattr("deepinfer_neuron.model.kv_cache.settings", lambda: Settings.from_environment(environment))
    assert CacheGeometry.for_requests(64, 4).num_blocks == 7
    assert settings_module.settings().num_kv_blocks is None


@pytest.mark.parametrize(
    "sizes", [(0, 1, 1, 8), (8, 0, 1, 8), (8, 1, 0, 8), (8, 1, 1, 0)], ids=["context", "requests", "blocks", "tokens"]
)
def test_empty_pools_are_refused(sizes):
    with pytest.raises(ConfigError, match="at least 1"):
        CacheGeometry(*sizes)


def test_odd_blocks_are_refused():
    with pytest.raises(ConfigError, match="even"):
        CacheGeometry(8, 1, 1, 7)
