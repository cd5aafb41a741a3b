"""All decompositions of this package by operator; they come before PyTorch's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch._ops import OpOverload

from . import adaptive_pooling, linear_systems, products, searching

OWN_DECOMPOSITIONS: Mapping[OpOverload, Callable] = {
    **adaptive_pooling.DECOMPOSITIONS,
    **linear_systems.DECOMPOSITIONS,
    **products.DECOMPOSITIONS,
    **searching.DECOMPOSITIONS,
}
