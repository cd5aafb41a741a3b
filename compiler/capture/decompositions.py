"""Meanings of fused operators that PyTorch's own modules call and that publish no decomposition.

``nn.TransformerEncoderLayer`` and ``nn.MultiheadAttention`` take a fused path in evaluation. It is traced as
the projections, softmax and norms that it stands for. A mask holds true, or anything but zero, where a
position is *not* attended to.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

_OVER_QUERIES_AND_KEYS = 0
_OVER_KEYS_OF_EACH_ROW = 1


def native_multi_head_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,
    average_attn_weights: bool = True,
    mask_type: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Attention of [batch, length, embed_dim] tensors: the output, and the weights if they are needed."""
    weights, biases = qkv_weight.chunk(3), qkv_bias.chunk(3)
    projected = [functional.linear(*one) for one in zip((query, key, value), weights, biases, strict=True)]
    heads = [one.unflatten(-1, (num_head, -1)).transpose(1, 2) for one in projected]
    scores = (heads[0] / math.sqrt(embed_dim // num_head)) @ heads[1].transpose(-2, -1)
    if mask is not None:
        scores = scores.masked_fill(_over_scores(mask, mask_type), -math.inf)
    probabilities = scores.softmax(-1)
    merged = (probabilities @ heads[2]).transpose(1, 2).flatten(-2)
    output = functional.linear(merged, proj_weight, proj_bias)
    if not need_weights:
        return output, query.new_empty(0)
    return output, probabilities.mean(1) if average_attn_weights else probabilities


def transformer_encoder_layer(
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,
    norm_first: bool,
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Tensor:
    """An encoder layer on [batch, length, embed_dim], norms before or after its two halves."""

    def attend(x: Tensor) -> Tensor:
        projections = qkv_weight, qkv_bias, proj_weight, proj_bias
        attended = native_multi_head_attention(
            x, x, x, embed_dim, num_heads, *projections, mask, need_weights=False, mask_type=mask_type
        )
        return attended[0]

    def feed_forward(x: Tensor) -> Tensor:
        hidden = functional.linear(x, ffn_weight_1, ffn_bias_1)
        activated = functional.gelu(hidden) if use_gelu else functional.relu(hidden)
        return functional.linear(activated, ffn_weight_2, ffn_bias_2)

    def norm(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        return functional.layer_norm(x, (embed_dim,), weight, bias, eps)

    if norm_first:
        src = src + attend(norm(src, norm_weight_1, norm_bias_1))
        return src + feed_forward(norm(src, norm_weight_2, norm_bias_2))
    src = norm(src + attend(src), norm_weight_1, norm_bias_1)
    return norm(src + feed_forward(src), norm_weight_2, norm_bias_2)


def _over_scores(mask: Tensor, mask_type: int | None) -> Tensor:
    """The mask as bool, broadcastable to scores [batch, heads, queries, keys]."""
    mask = mask.to(torch.bool)
    if mask_type == _OVER_KEYS_OF_EACH_ROW:
        return mask[:, None, None, :]
    return mask[None, None] if mask_type == _OVER_QUERIES_AND_KEYS else mask


DECOMPOSITIONS: Mapping[torch._ops.OpOverload, Callable] = {
    torch.ops.aten._native_multi_head_attention.default: native_multi_head_attention,
    torch.ops.aten._transformer_encoder_layer_fwd.default: transformer_encoder_layer,
}
