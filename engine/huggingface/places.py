"""Where a step's requests keep what they have seen: a row each, and in it a place for each of the last tokens."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Places:
    """The places of one step.

    Attributes:
        rows: int64 [batch], each request's row of the caches.
        positions: int64 [batch], how many tokens each request had before this step.
    """

    rows: Tensor
    positions: Tensor

    def last(self, tokens: int) -> Tensor:
        """int64 [batch, tokens]: positions of the last ``tokens``, this step's at the end; below 0 there was none."""
        return self.positions[:, None] + torch.arange(1 - tokens, 1)

    def store(self, pool: Tensor, new: Tensor) -> None:
        """Write [batch, heads, 1, width] at this step's positions of a pool [rows, places, heads, width], a ring."""
        pool.index_put_((self.rows, self.positions % pool.shape[1]), new[:, :, 0])

    def window(self, pool: Tensor) -> Tensor:
        """[batch, heads, places, width] in order of position, this step's at the end; 0 where there was no token.

        What another request left in the row is never read, so it cannot become a NaN by way of a weight of 0.
        """
        last = self.last(pool.shape[1])
        kept = pool[self.rows[:, None], last % pool.shape[1]]
        return torch.where((last >= 0)[:, :, None, None], kept, 0).transpose(1, 2)

    def state(self, pool: Tensor) -> Tensor:
        """[batch, ...] of a pool [rows, ...] of states; 0 for a request whose first token this is."""
        started = (self.positions > 0).view(-1, *[1] * (pool.dim() - 1))
        return torch.where(started, pool[self.rows], 0)

    def store_state(self, pool: Tensor, new: Tensor) -> None:
        """Write the states [batch, ...] that the step leaves."""
        pool.index_put_((self.rows,), new)
