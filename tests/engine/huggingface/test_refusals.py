"""A ``transformers`` model that is no decoder of text is refused with the part that is in the way."""

from __future__ import annotations

import pytest
import torch
import transformers
from deepinfer_neuron import compile_decode
from deepinfer_neuron.errors import CaptureError, ConfigError
from hugging_face_models import SIZES, decoder
from torch import nn

TINY = {"hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}


def encoder_decoder() -> nn.Module:
    config = transformers.T5Config(vocab_size=32, d_model=16, d_kv=8, d_ff=16, num_layers=1, num_heads=2)
    return transformers.T5ForConditionalGeneration(config)


def with_vision() -> nn.Module:
    vision = {**TINY, "image_size": 28, "patch_size": 14}
    text = {**TINY, "vocab_size": 32, "num_key_value_heads": 1, "head_dim": 8}
    return transformers.Gemma3ForConditionalGeneration(
        transformers.Gemma3Config(text_config=text, vision_config=vision, mm_tokens_per_image=4)
    )


def without_head() -> nn.Module:
    return transformers.LlamaModel(transformers.LlamaConfig(**SIZES))


def without_positions() -> nn.Module:
    return transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=32, hidden_size=16, n_layer=1, n_head=2))


def with_frequencies_of_the_batch() -> nn.Module:
    rope = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES, rope_parameters=rope))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (encoder_decoder, "T5ForConditionalGeneration .* an encoder and a decoder"),
        (with_vision, "Gemma3ForConditionalGeneration .* more than text .*vision_config"),
        (without_head, "LlamaModel .* no head"),
        (without_positions, "BloomForCausalLM .* takes no position_ids"),
        (with_frequencies_of_the_batch, "type 'dynamic'.*longest request"),
    ],
)
def test_a_model_that_cannot_be_stepped_is_refused(make, message):
    with pytest.raises(CaptureError, match=message):
        compile_decode(make(), [1], max_context=8)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"max_context": 0}, "max_context 0"),
        ({"max_context": 8, "max_requests": 0}, "max_requests 0"),
        ({"max_context": 513}, "positions for 512 tokens"),
    ],
)
def test_sizes_that_the_model_cannot_have_are_refused(sizes, message):
    with pytest.raises(ConfigError, match=message):
        compile_decode(decoder("llama", num_hidden_layers=1), [1], **sizes)


def test_a_model_that_is_not_on_the_cpu_is_refused():
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**SIZES))
    with pytest.raises(CaptureError, match="parameters are on meta"):
        compile_decode(model, [1], max_context=8)
