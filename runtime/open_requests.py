"""Which requests are open: one that is given back twice would be handed to two others."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import InputError


class OpenRequests:
    """Requests by identity, from when they are opened until they are closed."""

    def __init__(self) -> None:
        self._open: dict[int, object] = {}

    def __len__(self) -> int:
        return len(self._open)

    def add(self, request: object) -> None:
        """A request was opened."""
        self._open[id(request)] = request

    def remove(self, request: object) -> None:
        """A request is closed; raises InputError if it is not open."""
        self.check([request])
        del self._open[id(request)]

    def check(self, requests: Sequence[object]) -> None:
        """Raise InputError unless ``requests`` are open, and each of them is named once."""
        closed = [place for place, request in enumerate(requests) if id(request) not in self._open]
        if closed:
            raise InputError(
                f"requests {closed} of this call are not open: each was closed before, or opened elsewhere; open a new "
                "one for a new text"
            )
        if len({id(request) for request in requests}) < len(requests):
            raise InputError(
                "a request is named twice in one step: a step appends one token to each; take a step for each token"
            )
