"""How far computed tensors are from expected ones, in bits and in units of the last place."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

_INTEGER_OF = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


@dataclass(frozen=True)
class Difference:
    """``mismatched`` of ``elements`` have different bits; ``ulps`` is the largest distance of a pair.

    ``ulps`` is infinite where two elements are no neighbours of any degree: unequal integers, or a number against a
    NaN or an infinity.
    """

    elements: int = 0
    mismatched: int = 0
    ulps: float = 0.0

    def __add__(self, other: Difference) -> Difference:
        """Both together."""
        return Difference(
            self.elements + other.elements, self.mismatched + other.mismatched, max(self.ulps, other.ulps)
        )


def difference(actual: Tensor, expected: Tensor, of_largest: bool = False) -> Difference:
    """Compare two tensors of one dtype and shape; any NaN equals any NaN.

    An ulp is the spacing of floats at the expected element, or at the largest finite expected element if
    ``of_largest``. Zeros of unlike sign have different bits and no distance. A pair of other types or shapes
    mismatches everywhere.
    """
    if actual.dtype is not expected.dtype or actual.shape != expected.shape:
        return Difference(expected.numel(), expected.numel(), math.inf)
    unequal = _bits(actual) != _bits(expected)
    if not bool(unequal.any()):
        return Difference(expected.numel())
    largest = _largest(expected) if of_largest else None
    actual, expected_there = actual[unequal], expected[unequal]
    apart = ~(actual.double().isnan() & expected_there.double().isnan())
    ulps = _ulps(actual[apart], expected_there[apart], largest)
    return Difference(expected.numel(), int(apart.sum()), ulps)


def coarse_difference(actual: Tensor, expected: Tensor, grain: float) -> Difference:
    """Like ``difference``, in units of bfloat16, for wider floats that may come from sums of unknown order.

    The unit is one bfloat16 ulp of the expected element, or ``grain`` ulps of the largest element in its own dtype if
    that is more. A float32 or float64 element counts as mismatched when it is further than one unit; other types as in
    ``difference``.
    """
    if expected.dtype not in (torch.float32, torch.float64) or actual.dtype is not expected.dtype:
        return difference(actual, expected)
    bitwise = difference(actual, expected)
    if not math.isfinite(bitwise.ulps) or bitwise.mismatched == 0:
        return bitwise
    wide = expected.double()
    unit = torch.maximum(spacing(wide, torch.bfloat16), grain * spacing(_largest(expected), expected.dtype))
    distance = ((actual.double() - wide).abs() / unit).nan_to_num(0.0)
    return Difference(expected.numel(), int((distance > 1).sum()), float(distance.max()))


def _bits(tensor: Tensor) -> Tensor:
    return tensor.contiguous().view(_INTEGER_OF[tensor.itemsize]) if tensor.dtype.is_floating_point else tensor


def _largest(expected: Tensor) -> Tensor:
    return expected.double().nan_to_num(0.0, 0.0, 0.0).abs().max()


def _ulps(actual: Tensor, expected: Tensor, largest: Tensor | None) -> float:
    if not actual.numel():
        return 0.0
    if not expected.dtype.is_floating_point:
        return math.inf
    wide, wide_expected = actual.double(), expected.double()
    if not bool((wide.isfinite() & wide_expected.isfinite()).all()):
        return math.inf
    unit = spacing(wide_expected if largest is None else largest, expected.dtype)
    return float(((wide - wide_expected).abs() / unit).max())


def spacing(values: Tensor, dtype: torch.dtype) -> Tensor:
    """The distance between neighbouring floats of ``dtype`` at float64 values."""
    info = torch.finfo(dtype)
    return torch.exp2(torch.floor(torch.log2(values.abs().clamp_min(info.tiny)))) * info.eps
