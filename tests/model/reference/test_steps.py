"""Token-by-token decoding gives the rows of one prompt over the same tokens."""

import pytest
import torch
from deepinfer_neuron.model.reference.dspark import DraftModel
from deepinfer_neuron.model.reference.model import ReferenceModel

LIMITS = {"fp32": 2e-5, "fp32_kvq": 5e-5}


@pytest.mark.parametrize("mode", ["fp32_kvq", pytest.param("fp32", marks=pytest.mark.slow)])
def test_every_row_of_the_longest_prompt(published, mode, modes):
    # From length 1 on: odd and even groups, a ring that fills and wraps, past the top-k and the candidate limits.
    prompt = max(published.prompts, key=lambda name: len(published.ids(name)))
    ids, expected = published.ids(prompt), published.expected[f"{mode}/{prompt}/logits"]
    model = ReferenceModel(published.checkpoint, modes[mode])
    logits = [model.prefill(ids[:1]).logits] + [model.decode(token).logits for token in ids[1:]]
    assert (torch.cat(logits) - expected).abs().max() <= LIMITS[mode]


@pytest.mark.parametrize("length", [2, 3, 15, 16, 17, 33, 60])
def test_steps_after_a_prompt_of_any_length(published_a, modes, length):
    ids, expected = published_a.ids("p150"), published_a.expected["fp32_kvq/p150/logits"]
    model = ReferenceModel(published_a.checkpoint, modes["fp32_kvq"])
    logits = [model.prefill(ids[:length]).logits]
    logits += [model.decode(token).logits for token in ids[length : length + 3]]
    assert (torch.cat(logits) - expected[length - 1 : length + 3]).abs().max() <= LIMITS["fp32_kvq"]


def test_prefill_starts_a_new_request(published_a, modes):
    model = ReferenceModel(published_a.checkpoint, modes["fp32_kvq"])
    first = model.prefill(published_a.ids("p17")).logits
    model.decode(5)
    assert torch.equal(model.prefill(published_a.ids("p17")).logits, first)


def test_draft_rings_written_step_by_step(published, modes):
    prompt = max(published.prompts, key=lambda name: len(published.ids(name)))
    request = published.prompts[prompt]["drafts"][0]
    ids = published.ids(prompt)[: request["P"] + 1]
    model = ReferenceModel(published.checkpoint, modes["fp32_kvq"])
    stages = DraftModel(model.weights)
    stages.write(model.prefill(ids[:3]).main_hidden, 0)
    for position, token in enumerate(ids[3:], start=3):
        stages.write(model.decode(token).main_hidden, position)
    draft = stages.draft(request["token"], request["forced"])
    expected = published.expected[f"fp32_kvq/{prompt}/dspark{request['P']}.forced_logits"]
    assert (draft.logits - expected).abs().max() <= LIMITS["fp32_kvq"]


def test_activation_quantisation_changes_logits_little(published_a, modes):
    exact = ReferenceModel(published_a.checkpoint, modes["bf16_kvq"]).prefill(published_a.ids("p17")).logits
    official = ReferenceModel(published_a.checkpoint).prefill(published_a.ids("p17")).logits
    error = (official - exact).norm() / exact.norm()
    assert 1e-3 < error < 0.3
