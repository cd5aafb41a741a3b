"""What an engine says along golden prompts, in the form of a golden file."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from deepinfer_neuron.errors import ArtifactError
from deepinfer_neuron.model.accuracy.candidate import candidate_values, follow_prompts
from deepinfer_neuron.model.accuracy.compare import LEFT_OUT, ValueSet, compare_values
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model


@pytest.fixture
def pool(checkpoint):
    geometry = CacheGeometry.for_requests(max_context=64, max_requests=2, block_tokens=16)
    return RequestPool(load_model(checkpoint, geometry), EngramLookup(checkpoint, Numerics()))


def test_the_eager_model_gives_the_golden_bits(pool, golden_file):
    path, golden = golden_file
    batches = []
    followed = follow_prompts(pool, golden.prompts, 1, keep_hidden=True, progress=batches.append)
    assert batches == [["one"], ["twenty"]]
    for name, prompt in golden.prompts.items():
        assert followed[name].tokens == prompt.tokens
        assert torch.equal(followed[name].logits, prompt.logits)
        assert torch.equal(followed[name].hidden, prompt.hidden)
    comparison = compare_values(candidate_values(followed, "eager"), ValueSet.read(path))
    assert comparison.agrees
    assert comparison.missing == comparison.left_out == []


def test_prompts_of_a_batch_stay_apart_and_give_their_memory_back(pool, golden_file):
    path, golden = golden_file
    for _ in range(3):
        followed = follow_prompts(pool, golden.prompts, 2)
    comparison = compare_values(candidate_values(followed, "eager"), ValueSet.read(path))
    assert comparison.agrees
    assert comparison.missing == []
    assert comparison.left_out == ["one/hidden", "twenty/hidden"]


def test_prompts_of_unequal_length_run_to_their_ends(pool, golden_file):
    _, golden = golden_file
    short = golden.prompts["one"]
    prompts = {"one": replace(short, tokens=short.tokens[:-2]), "twenty": golden.prompts["twenty"]}
    followed = follow_prompts(pool, prompts, 2)
    assert [len(prompt.logits) for prompt in followed.values()] == [2, 4]


def test_the_step_function_gets_the_golden_tokens(pool, golden_file):
    _, golden = golden_file
    fed = []

    def step(**inputs):
        fed.append(inputs["input_ids"].tolist())
        return torch.zeros(len(fed[-1]), pool.model.config.vocab_size)

    follow_prompts(pool, golden.prompts, 2, step)
    assert fed == [
        list(pair) for pair in zip(*(one.tokens[one.length :] for one in golden.prompts.values()), strict=True)
    ]


def test_only_what_is_left_out_on_purpose_may_be_absent(pool, golden_file):
    path, golden = golden_file
    values = candidate_values(follow_prompts(pool, {"one": golden.prompts["one"]}, 1), "eager")
    comparison = compare_values(values, ValueSet.read(path))
    assert sorted(comparison.missing) == ["twenty/logits", "twenty/tokens"]
    assert sorted(comparison.left_out) == ["one/hidden", "twenty/hidden"]
    assert not comparison.agrees
    damaged = ValueSet("damaged", values.tensors, {LEFT_OUT: "["})
    with pytest.raises(ArtifactError, match="damaged has no list"):
        compare_values(damaged, ValueSet.read(path))
