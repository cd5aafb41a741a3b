"""How far apart two tensors are."""

from __future__ import annotations

import torch

INTEGER_OF = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(actual: torch.Tensor, expected: torch.Tensor) -> bool:
    """Equal dtype, shape and bits; any NaN equals any NaN."""
    if actual.dtype is not expected.dtype or actual.shape != expected.shape:
        return False
    if not actual.dtype.is_floating_point:
        return torch.equal(actual, expected)
    integer = INTEGER_OF[actual.itemsize]
    equal = actual.contiguous().view(integer) == expected.contiguous().view(integer)
    return bool((equal | (actual.double().isnan() & expected.double().isnan())).all())


def ulps(actual: torch.Tensor, expected: torch.Tensor, of_largest: bool = False) -> float:
    """The largest distance in units of the last place of the expected element, or of the largest one.

    NaN against NaN and equal infinities are no distance; against a number they are infinitely far.
    """
    if not expected.numel():
        return 0.0
    finite = expected.double().isfinite() & actual.double().isfinite()
    alike = (actual.double() == expected.double()) | (actual.double().isnan() & expected.double().isnan())
    if not bool((finite | alike).all()):
        return float("inf")
    a, b = actual.double()[finite], expected.double()[finite]
    magnitude = b.abs().max().expand(b.shape) if of_largest and b.numel() else b.abs()
    info = torch.finfo(expected.dtype)
    spacing = 2.0 ** torch.floor(torch.log2(magnitude.clamp_min(info.tiny))) * info.eps
    return float(((a - b).abs() / spacing).max()) if b.numel() else 0.0
