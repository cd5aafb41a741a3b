"""What the layers of a decoder keep of a request, learned from one token that it is given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel
from transformers.cache_utils import (
    CacheLayerMixin,
    DummyLayer,
    DynamicCache,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
    LinearAttentionCacheLayerMixin,
    LinearAttentionLayer,
)

from ...errors import CaptureError
from .layer_pools import LayerForm, TensorForm

KNOWN_LAYERS = (
    DummyLayer,
    DynamicLayer,
    DynamicSlidingWindowLayer,
    LinearAttentionLayer,
    LinearAttentionAndFullAttentionLayer,
    LinearAttentionAndSlidingWindowAttentionLayer,
)


def layer_forms(model: PreTrainedModel) -> list[LayerForm]:
    """Run ``model`` in eager on one token and look at the cache that it leaves.

    Raises CaptureError for a layer whose cache is of a kind that has no pools.
    """
    cache = DynamicCache(config=model.config)
    with torch.no_grad():
        model(input_ids=torch.zeros(1, 1, dtype=torch.int64), cache=cache, use_cache=True)
    return [_form(model, layer) for layer in cache.layers]


def _form(model: PreTrainedModel, layer: Any) -> LayerForm:
    if type(layer) not in KNOWN_LAYERS:
        raise CaptureError(
            f"{type(model).__name__} keeps a {type(layer).__name__}, which is more than keys and values, convolution "
            "and recurrent states: write the step as a module with decode_slots"
        )
    parts: dict[str, Any] = {}
    if isinstance(layer, CacheLayerMixin) and layer.keys is not None and layer.values is not None:
        parts["keys"], parts["values"] = _of_a_token(layer.keys), _of_a_token(layer.values)
        parts["window"] = getattr(layer, "sliding_window", None)
    if isinstance(layer, LinearAttentionCacheLayerMixin):
        parts["convolutions"] = _of_states(layer.conv_states)
        parts["recurrences"] = _of_states(layer.recurrent_states)
    return LayerForm(**parts)


def _of_a_token(kept: Tensor) -> TensorForm:
    """The form [heads, width] of one token of [1, heads, 1, width]."""
    return TensorForm((kept.shape[1], kept.shape[3]), kept.dtype)


def _of_states(states: dict[int, Tensor | None]) -> dict[int, TensorForm]:
    return {index: TensorForm(tuple(one.shape[1:]), one.dtype) for index, one in states.items() if one is not None}
