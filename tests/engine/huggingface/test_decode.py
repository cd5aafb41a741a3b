"""Compiled steps of ``transformers`` decoders write the texts that ``generate`` writes in eager PyTorch."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from deepinfer_neuron import compile_decode
from deepinfer_neuron.engine.huggingface.decode import HuggingFaceDecode
from deepinfer_neuron.engine.huggingface.probe import layer_forms
from deepinfer_neuron.engine.huggingface.step import HuggingFaceStep
from deepinfer_neuron.errors import InputError
from hugging_face_models import FAMILIES, PROMPTS, decoder, greedy_in_eager, greedy_in_steps
from transformers import PreTrainedModel

CONTEXT = 96
COUNT = 64


def poison(decode: HuggingFaceDecode) -> None:
    """Fill the caches with what no request may ever see."""
    for caches in decode.runner._fallback.caches:
        for pool in caches.buffers():
            pool.fill_(float("nan"))
    decode.runner.write_caches()


def logits_of(decode: HuggingFaceDecode, token: int) -> torch.Tensor:
    """Logits after a text of one token."""
    request = decode.open()
    logits = decode.prefill(request, [token]).clone()
    decode.close(request)
    return logits


def check_texts(model: PreTrainedModel, batch_sizes: list[int], **options: str) -> HuggingFaceDecode:
    """Compare greedy texts; the requests before the last are open at once, and every step is a program's."""
    expected = greedy_in_eager(model, PROMPTS, COUNT)
    decode = compile_decode(model, batch_sizes, max_context=CONTEXT, max_requests=len(PROMPTS) - 1, **options)
    poison(decode)
    assert min(len(set(text)) for text in expected) > 9, "a text that repeats itself shows little"
    assert greedy_in_steps(decode, PROMPTS, COUNT) == expected
    statistics = decode.runner.statistics
    assert not statistics.fallbacks
    assert statistics.live_rows == sum(map(len, PROMPTS)) + len(PROMPTS) * (COUNT - 1)
    assert set(statistics.replays) == set(batch_sizes)
    return decode


def test_texts_are_those_of_eager_generation():
    decode = check_texts(decoder("gpt-oss", num_hidden_layers=2), [4])
    assert decode.runner.statistics.padded_rows > 0


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_writes_the_texts_of_eager_generation(family):
    check_texts(decoder(family), [1, 2, 4])


@pytest.mark.slow
@pytest.mark.parametrize("options", [{"mode": "regions"}, {"numerics": "exact"}, {"target": "iree"}], ids=str)
def test_every_way_to_compile_writes_the_texts_of_eager_generation(options):
    check_texts(decoder("mixtral, window in context", num_hidden_layers=2), [4], **options)


@pytest.fixture(scope="module")
def model() -> PreTrainedModel:
    return decoder("llama", num_hidden_layers=1)


@pytest.fixture(scope="module")
def short(model) -> HuggingFaceDecode:
    """Three requests of at most 4 tokens, two in a step."""
    return compile_decode(model, [2], max_context=4, max_requests=3)


@pytest.fixture
def request_of(short):
    """Opens requests that are closed after the test."""
    opened = []

    def open_request():
        opened.append(short.open())
        return opened[-1]

    yield open_request
    for request in opened:
        short.close(request)


def test_logits_are_float32_rows_of_the_requests(short, request_of):
    logits = short.step([request_of(), request_of()], [5, 6])
    assert logits.dtype == torch.float32 and logits.shape == (2, 199)


def test_a_prompt_gives_the_logits_of_its_last_token(short, request_of):
    first, second = request_of(), request_of()
    fed = short.prefill(first, [5, 6, 7]).clone()
    for token in (5, 6, 7):
        stepped = short.step([second], [token])
    assert torch.equal(fed, stepped)
    assert first.tokens == second.tokens == [5, 6, 7]


def test_a_request_that_is_full_is_refused_and_keeps_its_tokens(short, request_of):
    full, other = request_of(), request_of()
    short.prefill(full, [5, 6, 7, 8])
    for call in (lambda: short.step([other, full], [5, 9]), lambda: short.prefill(full, [9])):
        with pytest.raises(InputError, match=r"would reach 5 tokens, the caches hold 4.*max_context"):
            call()
    with pytest.raises(InputError, match="would reach 5 tokens"):
        short.prefill(other, [1, 2, 3, 4, 5])
    assert (full.tokens, other.tokens) == ([5, 6, 7, 8], [])


def test_what_a_step_cannot_take_is_refused(short, request_of):
    request = request_of()
    replays = Counter(short.runner.statistics.replays)
    with pytest.raises(InputError, match=r"token ids outside 0\.\.198: \[199\]"):
        short.step([request], [199])
    with pytest.raises(InputError, match="the prompt is empty"):
        short.prefill(request, [])
    with pytest.raises(InputError, match="1 requests but 2 tokens"):
        short.step([request], [1, 2])
    with pytest.raises(InputError, match="named twice in one step"):
        short.step([request, request], [1, 2])
    assert request.tokens == [] and short.runner.statistics.replays == replays


def test_more_requests_than_rows_or_than_the_largest_batch_are_refused(short, request_of):
    requests = [request_of() for _ in range(3)]
    with pytest.raises(InputError, match="all 3 requests of the caches are in use"):
        short.open()
    with pytest.raises(InputError, match="a step of 3 requests: the largest compiled size is 2"):
        short.step(requests, [1, 2, 3])
    assert [request.tokens for request in requests] == [[], [], []]


def test_a_closed_request_is_refused_and_its_row_is_given_to_one_other(short):
    request = short.open()
    short.close(request)
    with pytest.raises(InputError, match="not open"):
        short.close(request)
    with pytest.raises(InputError, match="not open"):
        short.step([request], [1])
    first, second = short.open(), short.open()
    assert first.row != second.row
    short.close(first)
    short.close(second)


def test_caches_have_the_dtype_of_the_model_and_a_row_more_than_requests():
    model = decoder("mixtral, window in context", torch.bfloat16, num_hidden_layers=1)
    (caches,) = HuggingFaceStep(model, layer_forms(model), max_context=16, max_requests=3).caches
    assert {name: (pool.dtype, tuple(pool.shape)) for name, pool in caches.named_buffers()} == {
        "keys": (torch.bfloat16, (4, 11, 2, 16)),
        "values": (torch.bfloat16, (4, 11, 2, 16)),
    }


def test_every_slot_has_the_bound_that_devices_with_narrow_indices_ask_for(short):
    largest = {slot.name: slot.maximum for slot in short.runner._fallback.decode_slots}
    assert largest == {"token": 198, "row": 3, "position": 3}


def test_the_weights_are_shared(short, model):
    before = logits_of(short, 5)
    with torch.no_grad():
        model.lm_head.weight.mul_(2)
    assert torch.equal(logits_of(short, 5), 2 * before)
