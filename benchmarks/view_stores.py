"""The time of stores into layer views of one root against the root's size: a copied root would cost what it weighs."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..compiler.api import compile_decode
from ..runtime.memory import aligned_empty
from ..runtime.slots import PaddingPolicy, SlotSpec

LAYERS = 4
WIDTH = 512
BATCH_SIZE = 2


class LayersOfOneRoot(nn.Module):
    """Each layer stores a row into its view of one bfloat16 root and reads the row before it."""

    decode_slots = (
        SlotSpec("x", torch.bfloat16, (WIDTH,)),
        SlotSpec("rows", torch.int32, padding=PaddingPolicy.fill(1), index=True),
    )

    def __init__(self, root_bytes: int) -> None:
        super().__init__()
        rows = root_bytes // (LAYERS * WIDTH * 2)
        self.register_buffer("root", aligned_empty((LAYERS, rows, WIDTH), torch.bfloat16).zero_())

    def forward(self, x: Tensor, rows: Tensor) -> Tensor:
        """x [B, width] into row ``rows`` [B] of every layer."""
        for layer in self.root.unbind(0):
            layer.index_put_((rows,), x)
            x = x + layer[rows - 1]
        return x


@dataclass(frozen=True)
class RootTime:
    """The median time of a step on a root of that many bytes, and its paired ratio to the first root's."""

    root_bytes: int
    ms_per_step: float
    ratio: float


def time_root_sizes(mebibytes: Sequence[int], rounds: int, say: Callable[[str], None]) -> list[RootTime]:
    """Time the same stores on roots of several sizes, interleaved; the first size is the one compared with."""
    inputs = {"x": torch.ones(BATCH_SIZE, WIDTH, dtype=torch.bfloat16), "rows": torch.tensor([3, 7], dtype=torch.int32)}
    runners = []
    for size in mebibytes:
        say(f"compiling stores into a root of {size} MiB")
        runners.append(compile_decode(LayersOfOneRoot(size << 20), [BATCH_SIZE]))
        runners[-1].warm_up()
    times: list[list[float]] = [[] for _ in runners]
    for _ in range(rounds):
        for runner, taken in zip(runners, times, strict=True):
            start = time.perf_counter()
            runner(**inputs)
            taken.append((time.perf_counter() - start) * 1e3)
    return [
        RootTime(
            size << 20,
            statistics.median(taken),
            statistics.median(one / first for one, first in zip(taken, times[0], strict=True)),
        )
        for size, taken in zip(mebibytes, times, strict=True)
    ]
