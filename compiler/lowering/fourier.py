"""Discrete Fourier transforms as matrix products, which every target has; neuronx-cc knows no transform of its own.

A length that is a product is split (Cooley and Tukey, 1965), so that no matrix is larger than its largest prime
factor or ``LARGEST_MATRIX``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy
import torch
from torch import Tensor

from ...errors import LoweringError

LARGEST_MATRIX = 64
LARGEST_PRIME = 4096

Parts = tuple[Tensor, Tensor]
"""Real and imaginary parts of one shape."""


def transform_all(parts: Parts, dims: Sequence[int], forward: bool) -> Parts:
    """The unscaled transform over each of the dimensions.

    Raises:
        LoweringError: a length has a prime factor above ``LARGEST_PRIME``.
    """
    for dim in dims:
        real, imaginary = (one.movedim(dim, -1) for one in parts)
        real, imaginary = _transform(real, imaginary, forward)
        parts = real.movedim(-1, dim), imaginary.movedim(-1, dim)
    return parts


def half_to_whole(parts: Parts, dim: int, size: int) -> Parts:
    """All ``size`` frequencies of a real signal from the first size // 2 + 1: the others are their conjugates."""
    real, imaginary = parts
    mirrored = [one.narrow(dim, 1, (size - 1) // 2).flip(dim) for one in parts]
    return torch.cat([real, mirrored[0]], dim), torch.cat([imaginary, -mirrored[1]], dim)


def scale_of(shape: Sequence[int], dims: Sequence[int], normalization: int) -> float:
    """ATen's factor: 0 for none, 1 for one over the root of the number of elements, 2 for one over their number."""
    count = math.prod(shape[dim] for dim in dims)
    return {0: 1.0, 1: 1 / math.sqrt(max(count, 1)), 2: 1 / max(count, 1)}[normalization]


def _transform(real: Tensor, imaginary: Tensor, forward: bool) -> Parts:
    """X[k] = sum of x[j] exp(-+ 2 pi i j k / n) over the last dimension."""
    size = real.shape[-1]
    first = _factor(size)
    if first == size:
        return _product((real, imaginary), _roots(size, size, size, forward, real.dtype), torch.matmul)
    second = size // first
    rows = [one.unflatten(-1, (first, second)).transpose(-1, -2) for one in (real, imaginary)]
    inner = _transform(rows[0], rows[1], forward)
    turned = _product(inner, _roots(second, first, size, forward, real.dtype), torch.mul)
    outer = _transform(turned[0].transpose(-1, -2), turned[1].transpose(-1, -2), forward)
    return outer[0].transpose(-1, -2).flatten(-2), outer[1].transpose(-1, -2).flatten(-2)


def _factor(size: int) -> int:
    """The divisor next to the root of ``size``; ``size`` itself where it is small or prime."""
    if size <= LARGEST_MATRIX:
        return size
    for divisor in range(math.isqrt(size), 1, -1):
        if size % divisor == 0:
            return divisor
    if size > LARGEST_PRIME:
        raise LoweringError(
            f"a Fourier transform of length {size}, a prime, has no lowering: pad it to a product of small numbers"
        )
    return size


def _roots(rows: int, columns: int, size: int, forward: bool, dtype: torch.dtype) -> Parts:
    """exp(-+ 2 pi i j k / size) as [rows, columns]; the angle is reduced before it is rounded."""
    steps = numpy.outer(numpy.arange(rows), numpy.arange(columns)) % size
    angles = 2 * numpy.pi * steps / size
    sine = -numpy.sin(angles) if forward else numpy.sin(angles)
    real, imaginary = (torch.from_numpy(one) for one in (numpy.cos(angles), sine))
    return real.to(dtype), imaginary.to(dtype)


def _product(parts: Parts, roots: Parts, multiply: Callable[[Tensor, Tensor], Tensor]) -> Parts:
    real, imaginary = parts
    cosine, sine = roots
    return (
        multiply(real, cosine) - multiply(imaginary, sine),
        multiply(real, sine) + multiply(imaginary, cosine),
    )
