"""Requests that share the caches: who owns which blocks, and the inputs of their next step. No model is needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..errors import InputError
from ..runtime.open_requests import OpenRequests
from .config import ModelConfig
from .engram_hash import DEAD
from .engram_lookup import EngramLookup
from .kv_cache import CacheGeometry

StepFunction = Callable[..., Tensor]
"""Takes the decode slots of a model as keywords and returns logits: an eager model or a compiled runner."""


@dataclass(eq=False)
class Request:
    """One sequence: the tokens whose rows are cached, and the blocks that hold them."""

    window_block: int
    tokens: list[int]
    blocks: list[int] = field(default_factory=list)


class RequestTable:
    """Hands out cache blocks and builds the inputs of decode steps."""

    def __init__(self, config: ModelConfig, geometry: CacheGeometry, lookup: EngramLookup) -> None:
        self.config = config
        self.geometry = geometry
        self.lookup = lookup
        self._free_blocks = list(range(geometry.num_blocks - 1, -1, -1))
        self._free_windows = list(range(geometry.max_requests - 1, -1, -1))
        self._open = OpenRequests()

    def open(self, expected_tokens: int = 0) -> Request:
        """A request without tokens, with blocks for the first ``expected_tokens``.

        Raises InputError when no request slot or not enough blocks are free; nothing is taken from the pool then.
        """
        if not self._free_windows:
            raise InputError(
                f"all {self.geometry.max_requests} requests of the pool are in use: close one, "
                "or build the model with a larger max_requests"
            )
        request = Request(self._free_windows[-1], [])
        self._reserve([request], expected_tokens)
        self._free_windows.pop()
        self._open.add(request)
        return request

    def remove(self, request: Request) -> None:
        """Give a request's blocks back; raises InputError if it is closed already."""
        self._open.remove(request)
        self._free_blocks.extend(reversed(request.blocks))
        self._free_windows.append(request.window_block)
        request.blocks = []

    def advance(self, requests: Sequence[Request], token_ids: Sequence[int], run: StepFunction) -> Tensor:
        """Append one token to each request and return the logits float32 [B, vocab] after it.

        The result of a compiled runner is overwritten by its next step.
        """
        inputs = self.step_inputs(requests, token_ids)
        with torch.no_grad():
            logits = run(**inputs)
        for request, token in zip(requests, token_ids, strict=True):
            request.tokens.append(int(token))
        return logits

    def prefill(self, request: Request, token_ids: Sequence[int], run: StepFunction) -> Tensor:
        """``advance`` one request by one token after another; the logits float32 [1, vocab] after the last.

        Raises InputError as ``advance`` does, and for no tokens at all; nothing was appended then.
        """
        if not len(token_ids):
            raise InputError("the prompt is empty: give at least one token id (for example the bos token)")
        self._open.check([request])
        self.check_tokens(token_ids)
        self._reserve([request], len(token_ids))
        *first, last = token_ids
        for token in first:
            self.advance([request], [token], run)
        return self.advance([request], [last], run)

    def step_inputs(self, requests: Sequence[Request], token_ids: Sequence[int]) -> dict[str, Tensor]:
        """The decode slots of one step, reserving blocks for the new tokens.

        Raises InputError for an id outside the vocabulary, a request that is full, closed or named twice, or too few
        free blocks.
        """
        if not requests or len(requests) != len(token_ids):
            raise InputError(f"{len(requests)} requests but {len(token_ids)} tokens: a step takes one token for each")
        self._open.check(requests)
        self.check_tokens(token_ids)
        self._reserve(requests, 1)
        return {
            "input_ids": torch.tensor(token_ids, dtype=torch.int32),
            "positions": torch.tensor([len(request.tokens) for request in requests], dtype=torch.int32),
            "block_tables": self.block_tables(requests),
            "window_blocks": torch.tensor([request.window_block for request in requests], dtype=torch.int32),
            "engram_rows": self.lookup.step(self._histories(requests, token_ids)),
        }

    def block_tables(self, requests: Sequence[Request]) -> Tensor:
        """int32 [requests, blocks of a request]; what a request does not own is the scratch block."""
        width, scratch = self.geometry.blocks_per_request, self.geometry.scratch_block
        rows = [request.blocks + [scratch] * (width - len(request.blocks)) for request in requests]
        return torch.tensor(rows, dtype=torch.int32)

    def check_tokens(self, token_ids: Sequence[int]) -> None:
        """Raise InputError naming ids that are outside the vocabulary."""
        vocabulary = self.config.vocab_size
        outside = [int(token) for token in token_ids if not 0 <= token < vocabulary]
        if outside:
            raise InputError(f"token ids outside 0..{vocabulary - 1}: {outside[:5]}")

    def _histories(self, requests: Sequence[Request], token_ids: Sequence[int]) -> Tensor:
        size = self.config.engram_max_ngram_size
        padding = [DEAD] * (size - 1)
        return torch.tensor(
            [
                [*padding, *request.tokens[1 - size :], int(token)][-size:]
                for request, token in zip(requests, token_ids, strict=True)
            ]
        )

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
                "free: close requests, or build the model with more blocks"
            )
        for request, count in zip(requests, wanted, strict=True):
            request.blocks.extend(self._free_blocks.pop() for _ in range(count))
