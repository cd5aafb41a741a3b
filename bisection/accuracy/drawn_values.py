"""Inputs for a graph of which no real ones are known, from a seeded generator."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import torch
from torch import Tensor, fx

from ...errors import InputError
from ...passes.context import placeholders
from ...verification.observed import run_observed
from ..subjects.carried_bits import CARRIED, mark_carried

SEED = 0

_BOUNDS = (8, 4, 2, 1)
"""Integers are drawn below the first of these with which eager PyTorch runs the graph: most of them are indices."""

_LARGEST_CODE = 0x7E
"""Of bytes, which hold codes of float8 or pairs of float4 codes: 0x7f is not a number in e4m3."""


def draw_inputs(module: fx.GraphModule, seed: int = SEED) -> list[Tensor]:
    """One tensor for each placeholder, the same in every process.

    Floats have mean 0 and deviation 1; integers that hold bits of floats are those of such floats; other integers are
    small enough to be indices, bytes are codes of positive float8 values, and bools are even.

    Raises:
        InputError: eager PyTorch does not run the graph on any of them.
    """
    mark_carried(module)
    failure = ""
    for bound in _BOUNDS:
        inputs = [_draw(node, bound, seed) for node in placeholders(module)]
        try:
            run_observed(module, inputs)
        except (IndexError, RuntimeError) as error:
            failure = str(error).partition("\n")[0]
        else:
            return inputs
    raise InputError(f"eager PyTorch does not run the graph on inputs that were drawn ({failure}): use --model instead")


def draw_tensor(dtype: torch.dtype, shape: Sequence[int], bound: int, generator: torch.Generator) -> Tensor:
    """A tensor as ``draw_inputs`` describes it, integers below ``bound``."""
    if dtype is torch.bool:
        return torch.randint(0, 2, tuple(shape), generator=generator).bool()
    if dtype is torch.float8_e8m0fnu:
        return torch.exp2(torch.randint(-2, 3, tuple(shape), generator=generator).float()).to(dtype)
    if dtype.is_floating_point:
        return torch.randn(tuple(shape), generator=generator).to(dtype)
    limit = _LARGEST_CODE + 1 if dtype is torch.uint8 else bound
    return torch.randint(0, limit, tuple(shape), generator=generator).to(dtype)


def _draw(node: fx.Node, bound: int, seed: int) -> Tensor:
    value = node.meta["val"]
    # By name, so that the others do not change when one input is added.
    number = int.from_bytes(hashlib.sha256(f"{seed} {node.name}".encode()).digest()[:8], "little", signed=True)
    generator = torch.Generator().manual_seed(number)
    carried = node.meta.get(CARRIED)
    drawn = draw_tensor(carried or value.dtype, value.shape, bound, generator)
    return drawn.view(value.dtype) if carried else drawn
