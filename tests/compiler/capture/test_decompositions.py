from __future__ import annotations

import pytest
import torch
from torch import nn


@pytest.fixture(autouse=True)
def fresh_dynamo():
    torch._dynamo.reset()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def masks(kind: str) -> dict[str, torch.Tensor]:
    padding = torch.zeros(2, 6, dtype=torch.bool)
    padding[1, 4:] = True
    causal = torch.ones(6, 6, dtype=torch.bool).triu(1)
    return {
        "none": {},
        "padding": {"padding": padding},
        "causal": {"causal": causal},
        "both": {"padding": padding, "causal": causal},
    }[kind]


def called_operators(function, *arguments, **keywords) -> set[str]:
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
        function(*arguments, **keywords)
    return {event.key for event in profile.key_averages()}


@pytest.mark.parametrize("kind", ["none", "padding", "causal", "both"])
@pytest.mark.parametrize(("norm_first", "activation"), [(False, "relu"), (True, "gelu")])
@torch.no_grad()
def test_an_encoder_layer_in_evaluation_equals_eager(norm_first, activation, kind):
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True, norm_first=norm_first, activation=activation).eval()
    given = masks(kind)
    keywords = {"src_mask": given.get("causal"), "src_key_padding_mask": given.get("padding")}
    x = torch.randn(2, 6, 16)
    assert "aten::_transformer_encoder_layer_fwd" in called_operators(layer, x, **keywords)
    compiled = torch.compile(layer, backend="deepinfer_neuron")
    torch.testing.assert_close(compiled(x, **keywords), layer(x, **keywords), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("need_weights", [True, False])
@torch.no_grad()
def test_multi_head_attention_in_evaluation_equals_eager(need_weights):
    attention = nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x = torch.randn(2, 6, 16)
    keywords = {"need_weights": need_weights, "key_padding_mask": masks("padding")["padding"]}
    assert "aten::_native_multi_head_attention" in called_operators(attention, x, x, x, **keywords)
    compiled = torch.compile(attention, backend="deepinfer_neuron")
    for actual, expected in zip(compiled(x, x, x, **keywords), attention(x, x, x, **keywords), strict=True):
        if expected is not None:
            torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5)
