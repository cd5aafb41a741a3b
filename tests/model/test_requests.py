"""Cache blocks are handed out, refused and given back without loss."""

import pytest
import torch
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model


@pytest.fixture
def pool(nano_a):
    checkpoint = open_checkpoint(nano_a)
    geometry = CacheGeometry(max_context=32, max_requests=2, num_blocks=5, block_tokens=8)
    return RequestPool(load_model(checkpoint, geometry), EngramLookup(checkpoint, Numerics()))


def free(pool):
    return sorted(pool._free_blocks), sorted(pool._free_windows)


@pytest.mark.parametrize(
    ("token_ids", "message"),
    [
        ([], "empty"),
        ([3, 512], "token ids outside 0..511: \\[512\\]"),
        ([-1], "token ids outside"),
        ([3, 507], "token id 507 stands for an image"),
        ([3] * 33, "33 tokens, the caches hold 32"),
    ],
)
def test_a_bad_prompt_is_refused_and_takes_nothing(pool, token_ids, message):
    before = free(pool)
    with pytest.raises(InputError, match=message):
        pool.add(token_ids)
    assert free(pool) == before


def test_a_prompt_that_finds_too_few_blocks_takes_nothing(pool):
    pool.add([3] * 32)
    before = free(pool)
    with pytest.raises(InputError, match="2 cache blocks are needed, 1 of 5 are free"):
        pool.add([3] * 9)
    assert free(pool) == before


def test_more_requests_than_the_pool_has_are_refused(pool):
    pool.add([3])
    pool.add([3])
    with pytest.raises(InputError, match="all 2 requests"):
        pool.add([3])


def test_a_step_past_the_context_is_refused_and_changes_no_request(pool):
    full, _ = pool.add([3] * 32)
    short, _ = pool.add([3])
    with pytest.raises(InputError, match="33 tokens"):
        pool.step([short, full], [4, 4])
    assert len(full.tokens) == 32
    assert len(short.tokens) == 1


def test_a_step_needs_one_valid_token_for_each_request(pool):
    request, _ = pool.add([3])
    with pytest.raises(InputError, match="1 requests but 2 tokens"):
        pool.step([request], [4, 5])
    with pytest.raises(InputError, match="0 requests but 0 tokens"):
        pool.step([], [])
    with pytest.raises(InputError, match="outside"):
        pool.step([request], [9999])


def test_removed_blocks_are_used_again_with_the_same_result(pool):
    first, logits = pool.add([3, 4, 5, 6, 7, 8, 9, 10, 11])
    step = pool.step([first], [12])
    pool.remove(first)
    other, _ = pool.add([40] * 20)
    pool.remove(other)
    again, repeated = pool.add([3, 4, 5, 6, 7, 8, 9, 10, 11])
    assert torch.equal(repeated, logits)
    assert torch.equal(pool.step([again], [12]), step)
    pool.remove(again)
    assert len(pool._free_blocks) == 5


@pytest.mark.slow
def test_a_long_history_of_small_requests_fits_in_one_pool(pool):
    for round_number in range(20):
        request, _ = pool.add([3 + round_number] * 3)
        pool.step([request], [4])
        pool.remove(request)
    assert free(pool) == (list(range(5)), [0, 1])


def test_a_request_that_was_closed_is_refused_and_its_blocks_go_to_one_other(pool):
    first, _ = pool.add([3])
    pool.remove(first)
    before = free(pool)
    with pytest.raises(InputError, match="not open"):
        pool.remove(first)
    with pytest.raises(InputError, match="not open"):
        pool.step_inputs([first], [3])
    assert free(pool) == before
    one, other = pool.open(8), pool.open(8)
    assert one.window_block != other.window_block
    assert not set(one.blocks) & set(other.blocks)


def test_one_request_cannot_be_named_twice_in_a_step(pool):
    request, _ = pool.add([3])
    with pytest.raises(InputError, match="named twice in one step"):
        pool.step([request, request], [3, 4])
    assert request.tokens == [3]


def test_a_prompt_fed_by_steps_leaves_the_tokens_and_logits_of_its_steps(pool):
    fed, stepped = pool.open(), pool.open()
    logits = pool.prefill(fed, [3, 5, 7], pool.model).clone()
    for token in (3, 5, 7):
        expected = pool.step([stepped], [token])
    assert torch.equal(logits, expected)
    assert fed.tokens == stepped.tokens == [3, 5, 7]


@pytest.mark.parametrize(
    ("token_ids", "message"), [([], "empty"), ([3, 512], "token ids outside"), ([3] * 33, "33 tokens")]
)
def test_a_prompt_that_cannot_be_fed_whole_is_not_fed_at_all(pool, token_ids, message):
    request = pool.open()
    before = free(pool)
    with pytest.raises(InputError, match=message):
        pool.prefill(request, token_ids, pool.model)
    assert request.tokens == [] and free(pool) == before
