"""Requests that share the caches: who owns which blocks, and the inputs of their next step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..errors import InputError
from .cache_access import Observer
from .decode import DecodeModel
from .engram import EngramLookup
from .engram_hash import DEAD

StepFunction = Callable[..., Tensor]


@dataclass(eq=False)
class Request:
    """One sequence: the tokens whose rows are cached, and the blocks that hold them."""

    window_block: int
    tokens: list[int]
    blocks: list[int] = field(default_factory=list)


class RequestPool:
    """Hands out cache blocks, runs prefill, and builds the inputs of decode steps.

    A step function is the model itself (eager) or a compiled runner: anything that takes the model's decode slots as
    keywords and returns logits.
    """

    def __init__(self, model: DecodeModel, lookup: EngramLookup) -> None:
        self.model = model
        self.lookup = lookup
        self.geometry = model.geometry
        self._free_blocks = list(range(self.geometry.num_blocks - 1, -1, -1))
        self._free_windows = list(range(self.geometry.max_requests - 1, -1, -1))

    def add(self, token_ids: Sequence[int], observe: Observer | None = None) -> tuple[Request, Tensor]:
        """Prefill a prompt; returns its request and the logits float32 [vocab] of the token after it.

        Raises InputError for an empty prompt, an id outside the vocabulary, more tokens than a request may hold, or
        when no request slot or not enough blocks are free; nothing is taken from the pool then.
        """
        if not token_ids:
            raise InputError("the prompt is empty: give at least one token id (for example the bos token)")
        self._check_tokens(token_ids)
        image = self.model.config.image_token_id
        if image in token_ids:
            raise InputError(f"token id {image} stands for an image: this model reads text only, leave it out")
        if not self._free_windows:
            raise InputError(
                f"all {self.geometry.max_requests} requests of the pool are in use: remove one, "
                "or build the model with a larger max_requests"
            )
        request = Request(self._free_windows[-1], [])
        self._reserve([request], len(token_ids))
        self._free_windows.pop()
        request.tokens = list(token_ids)
        tokens = torch.tensor(token_ids)
        rows = self.lookup.sequence(tokens)
        table = self._block_tables([request])[0]
        return request, self.model.prefill(tokens.int(), rows, table, request.window_block, observe)

    def remove(self, request: Request) -> None:
        """Give a request's blocks back."""
        self._free_blocks.extend(reversed(request.blocks))
        self._free_windows.append(request.window_block)
        request.blocks = []

    def step(self, requests: Sequence[Request], token_ids: Sequence[int], run: StepFunction | None = None) -> Tensor:
        """Append one token to each request and return the logits float32 [B, vocab] after it.

        ``run`` defaults to the eager model. The result of a compiled runner is overwritten by its next step.
        """
        inputs = self.step_inputs(requests, token_ids)
        with torch.no_grad():
            logits = (run or self.model)(**inputs)
        for request, token in zip(requests, token_ids, strict=True):
            request.tokens.append(int(token))
        return logits

    def step_inputs(self, requests: Sequence[Request], token_ids: Sequence[int]) -> dict[str, Tensor]:
        """The decode slots of one step, reserving blocks for the new tokens; raises InputError as ``add`` does."""
        if not requests or len(requests) != len(token_ids):
            raise InputError(f"{len(requests)} requests but {len(token_ids)} tokens: a step takes one token for each")
        self._check_tokens(token_ids)
        self._reserve(requests, 1)
        return {
            "input_ids": torch.tensor(token_ids, dtype=torch.int32),
            "positions": torch.tensor([len(request.tokens) for request in requests], dtype=torch.int32),
            "block_tables": self._block_tables(requests),
            "window_blocks": torch.tensor([request.window_block for request in requests], dtype=torch.int32),
            "engram_rows": self.lookup.step(self._histories(requests, token_ids)),
        }

    def _histories(self, requests: Sequence[Request], token_ids: Sequence[int]) -> Tensor:
        size = self.model.config.engram_max_ngram_size
        padding = [DEAD] * (size - 1)
        return torch.tensor(
            [
                [*padding, *request.tokens[1 - size :], int(token)][-size:]
                for request, token in zip(requests, token_ids, strict=True)
            ]
        )

    def _block_tables(self, requests: Sequence[Request]) -> Tensor:
        width, scratch = self.geometry.blocks_per_request, self.geometry.scratch_block
        rows = [request.blocks + [scratch] * (width - len(request.blocks)) for request in requests]
        return torch.tensor(rows, dtype=torch.int32)

    def _reserve(self, requests: Sequence[Request], new_tokens: int) -> None:
        """Give every request the blocks for ``new_tokens`` more tokens, or none of them any."""
        wanted = []
        for request in requests:
            length = len(request.tokens) + new_tokens
            if length > self.geometry.max_context:
                raise InputError(
                    f"a request would reach {length} tokens, the caches hold {self.geometry.max_context} for one "
                    "request: stop it, or build the model with a larger max_context"
                )
            wanted.append(-(-length // self.geometry.block_tokens) - len(request.blocks))
        if sum(wanted) > len(self._free_blocks):
            raise InputError(
                f"{sum(wanted)} cache blocks are needed, {len(self._free_blocks)} of {self.geometry.num_blocks} are "
                "free: remove requests, or build the model with more blocks"
            )
        for request, count in zip(requests, wanted, strict=True):
            request.blocks.extend(self._free_blocks.pop() for _ in range(count))

    def _check_tokens(self, token_ids: Sequence[int]) -> None:
        vocabulary = self.model.config.vocab_size
        outside = [int(token) for token in token_ids if not 0 <= token < vocabulary]
        if outside:
            raise InputError(f"token ids outside 0..{vocabulary - 1}: {outside[:5]}")
