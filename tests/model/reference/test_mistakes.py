"""Deliberate mistakes must be visible against the published vectors, or those tests prove little."""

import pytest
import torch
from deepinfer_neuron.model.checkpoint import formats, loader
from deepinfer_neuron.model.reference import attention, compressor, hyper_connection, indexer, layer, moe
from deepinfer_neuron.model.reference.model import ReferenceModel


def transposed_mixing(patch):
    original = layer.expand
    patch.setattr(
        layer,
        "expand",
        lambda output, streams, mixes: original(
            output, streams, hyper_connection.Mixes(mixes.pre, mixes.post, mixes.comb.transpose(1, 2))
        ),
    )


def collapse_without_delay(patch):
    original = layer._sublayer
    patch.setattr(
        layer,
        "_sublayer",
        lambda block, site, streams, pre, compute, mixes: original(block, site, streams, mixes.pre, compute, mixes),
    )


def no_sink(patch):
    original = attention.sparse_attention
    patch.setattr(
        attention,
        "sparse_attention",
        lambda query, kv, sink, rows, scale: original(query, kv, sink - torch.inf, rows, scale),
    )


def output_left_rotated(patch):
    original = attention.rope
    patch.setattr(
        attention,
        "rope",
        lambda x, positions, frequencies, inverse=False: x if inverse else original(x, positions, frequencies),
    )


def latents_rotated_one_token_late(patch):
    original = compressor.rope
    patch.setattr(compressor, "rope", lambda x, positions, frequencies: original(x, positions + 1, frequencies))


def selection_of_the_worst(patch):
    original = indexer.top_indices
    patch.setattr(indexer, "top_indices", lambda scores, count: original(-scores, count))


def nibbles_swapped(patch):
    original = formats.decode_fp4_weight

    def swapped(packed, scale, dtype):
        codes = packed.view(torch.uint8)
        return original((codes << 4) | (codes >> 4), scale, dtype)

    patch.setattr(loader, "decode_fp4_weight", swapped)


def experts_chosen_without_bias(patch):
    original = moe.top_indices
    patch.setattr(moe, "top_indices", lambda scores, count: original(scores.roll(1, -1), count))


@pytest.mark.parametrize(
    "mistake",
    [
        transposed_mixing,
        collapse_without_delay,
        no_sink,
        output_left_rotated,
        latents_rotated_one_token_late,
        selection_of_the_worst,
        nibbles_swapped,
        experts_chosen_without_bias,
    ],
)
def test_a_mistake_shows(published_a, modes, monkeypatch, mistake):
    mistake(monkeypatch)
    ids = published_a.ids("p150")[:40]
    logits = ReferenceModel(published_a.checkpoint, modes["fp32"]).prefill(ids, range(40)).logits
    difference = (logits - published_a.expected["fp32/p150/logits"][:40]).abs()
    assert difference.flatten().quantile(0.99) > 1e-2
