"""Each layer on its own, fed the published streams of the layer below: errors cannot build up."""

import torch
from deepinfer_neuron.model.reference.hyper_connection import first_streams
from deepinfer_neuron.model.reference.model import ReferenceModel
from deepinfer_neuron.model.reference.state import Forward, RequestState


def layer_errors(published, numerics, mode, prompt):
    """|ours - theirs| over the rms of theirs, for the streams after each layer: [L, S, streams, d]."""
    ids = published.ids(prompt)
    model = ReferenceModel(published.checkpoint, numerics)
    expected, expected_pre = (published.expected[f"{mode}/{prompt}/{name}"] for name in ("h", "pre"))
    embedded = model.weights.embedding("embed.weight", torch.tensor(ids))
    streams, pre = first_streams(embedded, model.config.hc_mult)
    forward = Forward(RequestState(), 0, len(ids))
    row_ids = model.engram_row_ids(ids)
    errors = []
    for layer in range(model.config.num_hidden_layers):
        streams = model.add_engram(layer, streams, row_ids)
        streams, _ = model.run_layer(layer, streams, pre, forward)
        errors.append((streams.float() - expected[layer]).abs() / expected[layer].square().mean().sqrt())
        streams, pre = expected[layer].to(numerics.dtype), expected_pre[layer]
    return torch.stack(errors)


def test_every_layer_alone(published, mode, modes):
    limits = published.limits
    whole = [name for name, prompt in published.prompts.items() if len(prompt["h_pos"]) == len(prompt["ids"][0])]
    assert whole
    for prompt in whole:
        errors = layer_errors(published, modes[mode], mode, prompt)
        precision = mode.partition("_")[0]
        assert errors.max() <= limits["layerwise_rel_max"][precision], prompt
        if precision == "bf16":
            assert errors.flatten().quantile(0.99) <= limits["layerwise_rel_p99"]["bf16"], prompt
