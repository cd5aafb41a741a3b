"""Requests that share the caches of a step: who owns which row, and the inputs of their next step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ...errors import InputError
from ...runtime.open_requests import OpenRequests


@dataclass(eq=False)
class Request:
    """One sequence: the tokens that its row of the caches has seen."""

    row: int
    tokens: list[int]


class RequestRows:
    """Hands out rows ``0..max_requests - 1``.

    A row is given on as it is: a step never reads what another request left in it.
    """

    def __init__(self, vocabulary: int, max_context: int, max_requests: int):
        self.vocabulary = vocabulary
        self.max_context = max_context
        self.max_requests = max_requests
        self._free = list(range(max_requests - 1, -1, -1))
        self._open = OpenRequests()

    def open(self) -> Request:
        """A request without tokens; raises InputError when no row is free."""
        if not self._free:
            raise InputError(
                f"all {self.max_requests} requests of the caches are in use: close one, or compile with a larger "
                "max_requests"
            )
        request = Request(self._free.pop(), [])
        self._open.add(request)
        return request

    def remove(self, request: Request) -> None:
        """Give a request's row to others; raises InputError if it is closed already."""
        self._open.remove(request)
        self._free.append(request.row)

    def check(self, requests: Sequence[Request], token_ids: Sequence[int]) -> None:
        """Raise InputError for a request that is not open or named twice, or an id outside the vocabulary."""
        self._open.check(requests)
        outside = [int(token) for token in token_ids if not 0 <= token < self.vocabulary]
        if outside:
            raise InputError(f"token ids outside 0..{self.vocabulary - 1}: {outside[:5]}")

    def check_room(self, request: Request, tokens: int) -> None:
        """Raise InputError unless ``tokens`` more fit into a request's row."""
        length = len(request.tokens) + tokens
        if length > self.max_context:
            raise InputError(
                f"a request would reach {length} tokens, the caches hold {self.max_context} for one request: stop it, "
                "or compile with a larger max_context"
            )

    def step_inputs(self, requests: Sequence[Request], token_ids: Sequence[int]) -> dict[str, Tensor]:
        """The slots of a step that appends one token to each request.

        Raises InputError as ``check``, for a request that is full, or unless there is one token for each request.
        """
        if not requests or len(requests) != len(token_ids):
            raise InputError(f"{len(requests)} requests but {len(token_ids)} tokens: a step takes one token for each")
        self.check(requests, token_ids)
        for request in requests:
            self.check_room(request, 1)
        return {
            "token": torch.tensor([int(token) for token in token_ids]),
            "row": torch.tensor([request.row for request in requests]),
            "position": torch.tensor([len(request.tokens) for request in requests]),
        }
