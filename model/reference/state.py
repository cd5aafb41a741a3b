"""What a request keeps between forwards, and what the layers of one forward share."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass
class RequestState:
    """Caches of one request, keyed by layer.

    ``windows`` [window, D]: ring of sliding-window rows, position t in slot t % window. ``compressed`` [T, D] and
    ``index_keys`` [T, D_index]: one row per complete group, at kv source layers. ``pending``: float32 keys and scores
    [tokens of the open group, D] of compressors that pool several tokens.
    """

    token_ids: list[int] = field(default_factory=list)
    windows: dict[int, Tensor] = field(default_factory=dict)
    compressed: dict[int, Tensor] = field(default_factory=dict)
    index_keys: dict[int, Tensor] = field(default_factory=dict)
    pending: dict[int, tuple[Tensor, Tensor]] = field(default_factory=dict)


@dataclass
class Forward:
    """One call: a whole prompt (``start`` 0) or one token, with what its layers publish to later ones.

    ``selection`` int64 [S, k]: chosen compressed rows, ascending, -1 for none. ``candidates`` bool [S, T]: compressed
    rows that later index layers may choose from.
    """

    state: RequestState
    start: int
    length: int
    selection: Tensor = field(default_factory=lambda: torch.empty(0))
    candidates: Tensor = field(default_factory=lambda: torch.empty(0))

    @property
    def positions(self) -> Tensor:
        """Token positions int64 [S]."""
        return torch.arange(self.start, self.start + self.length)
