"""Spellings accepted by the release's convert.py."""

import pytest
from deepinfer_neuron.model.checkpoint.names import canonical_name


@pytest.mark.parametrize(
    ("stored", "canonical"),
    [
        ("model.layers.3.self_attn.wq_a.weight_scale_inv", "layers.3.attn.wq_a.scale"),
        ("layers.3.mlp.gate.e_score_correction_bias", "layers.3.ffn.gate.bias"),
        ("layers.3.attn.indexer.wk.weight", "layers.3.attn.indexer.wk.weight"),
        ("mtp.2.markov_head.embed.weight", "mtp.2.markov_head.embed.weight"),
        ("embed.weight", "embed.weight"),
    ],
)
def test_text_tensors_get_their_canonical_name(stored, canonical):
    assert canonical_name(stored) == canonical


@pytest.mark.parametrize(
    "stored",
    [
        "vision.blocks.0.mlp.w1.weight",
        "model.aligner.w2.weight",
        "image_newline",
        "mtp.0.embed.weight",
        "mtp.2.head.weight",
    ],
)
def test_tensors_the_text_model_does_not_read_have_none(stored):
    assert canonical_name(stored) is None
