"""What a program should return, and how far off it may be: the criterion of a miscompilation.

The right value is that of the graph in float64, rounded once to the type of the output. Eager PyTorch's own error, in
the types of the graph and on the same inputs, is measured against it. A compiled result may be ``FACTOR`` times as far
off as eager's worst element of the same output, and at least one ulp of the element in bfloat16 or in its own type, or
the float32 ulps of the largest element that the table of inexact operators allows a matrix product, whichever is most.
Of integers and bools any difference counts, except that a value between eager's and float64's is right where these two
differ. Not-a-number and infinities are right where eager has them. Integers that are the bits of floats are compared as
those floats.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor, fx

from ...compiler.lowering.inexact import INEXACT
from ...passes.context import results
from ...verification.distance import spacing
from ...verification.observed import run_observed
from ..subjects.carried_bits import CARRIED, decode_carried
from .wide_run import run_wide

FACTOR = 4.0
"""Times eager's own error that a compiled result may be off."""

_GRAIN = INEXACT[torch.ops.aten.mm.default].ulps

CRITERION = (
    f"an element of a result is further from its value in float64 than {FACTOR:g} times the largest error of eager "
    f"PyTorch in that result, than one bfloat16 ulp, and than {_GRAIN} float32 ulps of the result's largest element; "
    "or an integer or bool differs"
)
"""The same for people, on one line."""


@dataclass(frozen=True)
class Expectation:
    """The right outputs of a program.

    Attributes:
        expected: in order, in the types of the outputs, integers that hold the bits of floats as these floats.
        tolerance: of each, how far each element may be from it; of its shape, float64.
        carried: output index -> dtype of the floats whose bits it holds.
    """

    expected: Sequence[Tensor]
    tolerance: Sequence[Tensor]
    carried: Mapping[int, torch.dtype] = field(default_factory=dict)

    def differences(self, actual: Sequence[Tensor]) -> list[str]:
        """A line for each output that is off."""
        found = zip(actual, self.expected, self.tolerance, strict=True)
        lines = (
            difference_line(f"result {index}", decode_carried(one, self.carried.get(index)), right, tolerance)
            for index, (one, right, tolerance) in enumerate(found)
        )
        return [line for line in lines if line]


def expect(module: fx.GraphModule, inputs: Sequence[Tensor]) -> Expectation:
    """Run a functional graph in eager PyTorch, as it is and in float64; raises whatever eager PyTorch raises."""
    carried = {index: node.meta[CARRIED] for index, node in enumerate(results(module)) if CARRIED in node.meta}
    eager = run_observed(module, inputs)
    wide = run_wide(module, inputs)
    pairs = [
        _judged(decode_carried(own, carried.get(index)), decode_carried(right, carried.get(index)))
        for index, (own, right) in enumerate(zip(eager, wide, strict=True))
    ]
    return Expectation([right for right, _ in pairs], [tolerance for _, tolerance in pairs], carried)


def difference_line(name: str, actual: Tensor, expected: Tensor, tolerance: Tensor) -> str:
    """How an output is off; empty if it is within the tolerance everywhere.

    Not-a-number is right where it is expected, and nowhere else.
    """
    left, right = actual.double(), expected.double()
    distance = (left - right).abs()
    both = left.isnan() & right.isnan()
    # Float64 does not tell large int64 apart.
    near = (distance <= tolerance) & ((tolerance > 0) | expected.dtype.is_floating_point)
    off = ~(near | _equal(actual, expected) | both)
    count = int(off.sum())
    if not count:
        return ""
    worst = torch.where(off, distance.nan_to_num(torch.inf), -1.0).argmax()
    place = [int(one) for one in torch.unravel_index(worst, off.shape)] if off.dim() else []
    return (
        f"{name}: {count} of {off.numel()} elements are off, the worst at {place}: {left.flatten()[worst].item()!r}, "
        f"expected {right.flatten()[worst].item()!r} within {tolerance.flatten()[worst].item()!r}"
    )


def _judged(eager: Tensor, wide: Tensor) -> tuple[Tensor, Tensor]:
    """The right output and its tolerance."""
    own = eager.double()
    if not eager.dtype.is_floating_point:
        return eager.contiguous(), (own - wide.double()).abs()
    right = wide.to(eager.dtype)
    value = right.double()
    # Where low precision alone overflows, that is what the graph means.
    unlike = (own.isfinite() != value.isfinite()) | (own.isnan() != value.isnan())
    right = torch.where(unlike, own, value).to(eager.dtype)
    error = torch.where(own.isfinite() & value.isfinite(), (own - value).abs(), 0.0)
    if not own.numel():
        return right, error
    largest = torch.where(value.isfinite(), value.abs(), 0.0).max()
    unit = torch.maximum(spacing(value, torch.bfloat16), spacing(value, eager.dtype))
    grain = _GRAIN * spacing(largest, torch.float32)
    tolerance = torch.maximum(unit.nan_to_num(0.0, 0.0), torch.maximum(FACTOR * error.max(), grain))
    return right, torch.where(unlike, math.inf, tolerance)


def _equal(actual: Tensor, expected: Tensor) -> Tensor:
    if actual.dtype is expected.dtype and not expected.dtype.is_floating_point:
        return actual == expected
    return actual.double() == expected.double()
