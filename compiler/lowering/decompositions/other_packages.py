"""Operators that other packages define, by name: an operator is there only once its package is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import Tensor

from .products import grouped_product


def grouped_gradients(x: Tensor, weight: Tensor, offsets: Tensor, gradient: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of rows x [S, K] and of weights [G, K, N] from those of their grouped product [S, N]."""
    return grouped_product(gradient, weight.mT, offsets), grouped_product(x.mT, gradient, offsets)


OTHER_PACKAGES: Mapping[str, Callable] = {
    "transformers.grouped_mm_fallback.default": grouped_product,
    "transformers.grouped_mm_fallback_backward.default": grouped_gradients,
}
