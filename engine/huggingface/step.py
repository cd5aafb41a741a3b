"""One step of a ``transformers`` decoder for requests of any length, with their caches in buffers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from ...runtime.slots import PaddingPolicy, SlotSpec
from .layer_pools import LayerForm, LayerPools
from .places import Places
from .pooled_cache import PooledCache


class HuggingFaceStep(nn.Module):
    """Logits float32 [batch, vocabulary] after one more token of each request.

    Slots are the token, the request's row of the caches and its number of tokens so far. Padding is a first token
    in a row that no request has.

    Args:
        model: a capturable copy of the decoder.
        forms: what each of its layers keeps.
        max_context: tokens that one request may reach.
        max_requests: rows of the caches, without that of padding.
    """

    def __init__(self, model: PreTrainedModel, forms: Iterable[LayerForm], max_context: int, max_requests: int):
        super().__init__()
        self.model = model
        self.caches = nn.ModuleList(LayerPools(form, max_requests + 1, max_context) for form in forms)
        self.max_context = max_context
        self.vocabulary = model.get_input_embeddings().get_parameter("weight").shape[0]
        self.decode_slots = (
            SlotSpec("token", torch.int64, index=True, padding=PaddingPolicy.fill(0), maximum=self.vocabulary - 1),
            SlotSpec("row", torch.int64, index=True, padding=PaddingPolicy.fill(max_requests), maximum=max_requests),
            SlotSpec("position", torch.int64, index=True, padding=PaddingPolicy.fill(0), maximum=max_context - 1),
        )

    def forward(self, token: Tensor, row: Tensor, position: Tensor) -> Tensor:
        """Take int64 [batch] of each slot."""
        places = Places(row, position)
        cache = PooledCache(cast("Iterable[LayerPools]", self.caches), places)
        output = self.model(
            input_ids=token[:, None],
            position_ids=position[:, None],
            attention_mask=(places.last(self.max_context) >= 0).to(torch.int64),
            cache=cache,
            use_cache=True,
        )
        cache.store_states()
        return output.logits[:, 0].float()
