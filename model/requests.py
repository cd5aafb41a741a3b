"""Requests of an eager decode model: prompts are prefilled, steps run in eager PyTorch or by a compiled runner."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import InputError
from .cache_access import Observer
from .decode import DecodeModel
from .engram_lookup import EngramLookup
from .request_table import Request, RequestTable, StepFunction


class RequestPool(RequestTable):
    """A table of requests whose caches belong to a model that can prefill them."""

    def __init__(self, model: DecodeModel, lookup: EngramLookup) -> None:
        super().__init__(model.config, model.geometry, lookup)
        self.model = model

    def add(self, token_ids: Sequence[int], observe: Observer | None = None) -> tuple[Request, Tensor]:
        """Prefill a prompt; returns its request and the logits float32 [vocab] of the token after it.

        Raises InputError for an empty prompt, an id outside the vocabulary, more tokens than a request may hold, or
        when no request slot or not enough blocks are free; nothing is taken from the pool then.
        """
        if not token_ids:
            raise InputError("the prompt is empty: give at least one token id (for example the bos token)")
        self.check_tokens(token_ids)
        image = self.config.image_token_id
        if image in token_ids:
            raise InputError(f"token id {image} stands for an image: this model reads text only, leave it out")
        request = self.open(len(token_ids))
        request.tokens = list(token_ids)
        tokens = torch.tensor(token_ids)
        rows = self.lookup.sequence(tokens)
        table = self.block_tables([request])[0]
        return request, self.model.prefill(tokens.int(), rows, table, request.window_block, observe)

    def step(self, requests: Sequence[Request], token_ids: Sequence[int], run: StepFunction | None = None) -> Tensor:
        """``advance`` by ``run``, by default the eager model."""
        return self.advance(requests, token_ids, run or self.model)
