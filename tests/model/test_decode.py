"""The decode model against golden logits of an independent implementation and against the reference."""

import json

import pytest
import torch
from deepinfer_neuron.model.accuracy.probe import compare_operations
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.model.reference.model import ReferenceModel
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model
from safetensors.torch import load_file

MODES = {
    "fp32": Numerics(torch.float32, kv_quant=False, act_quant=False),
    "fp32_kvq": Numerics(torch.float32, kv_quant=True, act_quant=False),
    "bf16_kvq": Numerics(torch.bfloat16, kv_quant=True, act_quant=False),
}
GEOMETRY = CacheGeometry.for_requests(max_context=160, max_requests=3, block_tokens=8)


def make_pool(directory, numerics=None, geometry=GEOMETRY):
    checkpoint = open_checkpoint(directory)
    numerics = numerics or Numerics()
    return RequestPool(load_model(checkpoint, geometry, numerics), EngramLookup(checkpoint, numerics))


def prompts_of(directory):
    return {
        name: entry["ids"][0] for name, entry in json.loads((directory / "inputs.json").read_text())["prompts"].items()
    }


@pytest.mark.parametrize("mode", MODES)
def test_prefill_matches_golden_logits(vectors_directory, mode):
    golden = load_file(vectors_directory / "outputs.safetensors")
    pool = make_pool(vectors_directory, MODES[mode])
    limit = json.loads((vectors_directory / "tolerances.json").read_text())[mode]
    for name, token_ids in prompts_of(vectors_directory).items():
        request, logits = pool.add(token_ids)
        error = (logits - golden[f"{mode}/{name}/logits"][-1]).abs()
        assert error.median() <= limit["logits_median"] * (2 if mode == "bf16_kvq" else 1), name
        assert error.max() <= limit.get("logits_max_strict", limit.get("logits_max", 0.6)), name
        pool.remove(request)


@pytest.mark.parametrize("mode", ["fp32_kvq", pytest.param("fp32", marks=pytest.mark.slow)])
def test_decode_reproduces_every_row_of_the_longest_prompt(vectors_directory, mode):
    golden = load_file(vectors_directory / "outputs.safetensors")
    pool = make_pool(vectors_directory, MODES[mode])
    name, token_ids = max(prompts_of(vectors_directory).items(), key=lambda item: len(item[1]))
    rows = golden[f"{mode}/{name}/logits"]
    request, logits = pool.add(token_ids[:1])
    assert (logits - rows[0]).abs().max() <= 2e-5
    for position, token in enumerate(token_ids[1:], start=1):
        logits = pool.step([request], [token])[0]
        assert (logits - rows[position]).abs().max() <= 2e-5, position


@pytest.mark.parametrize("name", ["nano_b", pytest.param("nano_a", marks=pytest.mark.slow)])
def test_decode_in_bfloat16_stays_within_the_published_tolerance(nano_a, name):
    directory = nano_a.with_name(name)
    golden = load_file(directory / "outputs.safetensors")
    pool = make_pool(directory, MODES["bf16_kvq"])
    limit = json.loads((directory / "tolerances.json").read_text())["bf16_kvq"]
    prompt, token_ids = max(prompts_of(directory).items(), key=lambda item: len(item[1]))
    rows = golden[f"bf16_kvq/{prompt}/logits"]
    request, first = pool.add(token_ids[:1])
    logits = torch.stack([first, *(pool.step([request], [token])[0] for token in token_ids[1:])])
    error = (logits - rows).abs()
    assert error.median() <= limit["logits_median"]
    assert error.quantile(0.99) <= limit["logits_p99"]
    assert (logits.argmax(-1) == rows.argmax(-1)).float().mean() >= limit["argmax_min"]


@pytest.mark.parametrize(
    "length",
    [1, 3, 16, 17, 33, 128, *(pytest.param(one, marks=pytest.mark.slow) for one in (2, 15, 31, 32, 60, 100, 127, 129))],
)
def test_decode_continues_prefill(vectors_directory, length):
    """A prompt prefilled whole equals the same prompt prefilled in part and decoded on, past window and top-k."""
    pool = make_pool(vectors_directory, MODES["fp32_kvq"])
    token_ids = max(prompts_of(vectors_directory).values(), key=len)[: length + 4]
    _, whole = pool.add(token_ids)
    request, logits = pool.add(token_ids[:length])
    for token in token_ids[length:]:
        logits = pool.step([request], [token])[0]
    assert (logits - whole).abs().max() <= 5e-5


def test_a_batch_at_different_positions_equals_single_requests(vectors_directory):
    prompts = list(prompts_of(vectors_directory).values())
    tokens = [5, 6, 7]
    alone = []
    for prompt, token in zip(prompts, tokens, strict=True):
        pool = make_pool(vectors_directory, MODES["fp32_kvq"])
        request, _ = pool.add(prompt)
        alone.append(pool.step([request], [token])[0])
    pool = make_pool(vectors_directory, MODES["fp32_kvq"])
    requests = [pool.add(prompt)[0] for prompt in prompts]
    together = pool.step(requests, tokens)
    permuted = make_pool(vectors_directory, MODES["fp32_kvq"])
    requests = [permuted.add(prompt)[0] for prompt in prompts]
    order = [2, 0, 1]
    shuffled = permuted.step([requests[row] for row in order], [tokens[row] for row in order])
    assert (together - torch.stack(alone)).abs().max() <= 5e-5
    assert (shuffled - torch.stack(alone)[order]).abs().max() <= 5e-5


def test_every_named_value_equals_the_reference_to_the_bit(vectors_directory):
    """The released numerics (bfloat16, both quantisations): prefill and one decode step of every prompt."""
    checkpoint = open_checkpoint(vectors_directory)
    pool = make_pool(vectors_directory)
    for token_ids in prompts_of(vectors_directory).values():
        comparisons = compare_operations(ReferenceModel(checkpoint), pool, token_ids, next_token=7)
        layers = checkpoint.config.num_hidden_layers
        assert len(comparisons) > 2 * 18 * layers
        assert [comparison for comparison in comparisons if not comparison.equal] == []


@pytest.mark.parametrize("fp8_max", [240.0, 224.0])
def test_in_a_smaller_fp8_range_too_every_named_value_equals_the_reference(nano_a, fp8_max):
    numerics = Numerics(fp8_max=fp8_max)
    checkpoint, pool = open_checkpoint(nano_a), make_pool(nano_a, numerics)
    token_ids = max(prompts_of(nano_a).values(), key=len)[:24]
    comparisons = compare_operations(ReferenceModel(checkpoint, numerics), pool, token_ids, next_token=7)
    assert [comparison for comparison in comparisons if not comparison.equal] == []
    released = compare_operations(ReferenceModel(checkpoint), pool, token_ids, next_token=7)
    assert "layers.0.attn.q[prefill]" in {comparison.op for comparison in released if not comparison.equal}


def test_padding_rows_write_only_to_the_scratch_blocks(nano_a):
    pool = make_pool(nano_a, MODES["fp32_kvq"])
    request, _ = pool.add([3, 4, 5])
    inputs = pool.step_inputs([request], [9])
    model = pool.model
    padded = {
        spec.name: torch.cat((inputs[spec.name], torch.full_like(inputs[spec.name], spec.pad_value)))
        for spec in model.decode_slots
    }
    cache = model.cache
    before = cache.snapshot()
    with torch.no_grad():
        alone = model(**inputs)
    written = changed_rows(cache, before)
    cache.restore(before)
    with torch.no_grad():
        together = model(**padded)
    assert (together[0] - alone[0]).abs().max() <= 1e-5
    for name, rows in changed_rows(cache, before).items():
        assert rows - written[name] <= scratch_rows(pool, name), name
        assert written[name] <= rows, name


def changed_rows(cache, before):
    return {
        name: set((root != before[name]).any(-1).nonzero().flatten().tolist()) for name, root in cache.named_buffers()
    }


def scratch_rows(pool, name):
    config, geometry, cache = pool.model.config, pool.geometry, pool.model.cache
    if name == "window":
        size = config.sliding_window
        return {
            base + geometry.scratch_window * size + row for base in cache.window_base.values() for row in range(size)
        }
    if name == "compressor_state":
        return {
            base + geometry.scratch_window * config.compress_ratios[layer] + row
            for layer, base in cache.state_base.items()
            for row in range(config.compress_ratios[layer])
        }
    rows = set()
    for layer, base in cache.compressed_base.items():
        per_block = geometry.block_tokens // config.compress_ratios[layer]
        rows |= {base + geometry.scratch_block * per_block + row for row in range(per_block)}
    return rows
