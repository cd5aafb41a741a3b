"""Named operations of the decode model against the reference, on the same prompt, bit by bit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..reference.model import ReferenceModel
from ..requests import RequestPool
from .metrics import ulp_distance


@dataclass(frozen=True)
class OperationComparison:
    """One named value in prefill or decode: whether all bits agree, and the largest distance in units of its dtype.

    ``max_ulp`` counts representable values for floats and plain units for integers and booleans.
    """

    op: str
    equal: bool
    max_ulp: int


def compare_operations(
    reference: ReferenceModel, pool: RequestPool, token_ids: Sequence[int], next_token: int
) -> list[OperationComparison]:
    """Prefill ``token_ids``, then decode ``next_token``, in both; every value that both report, in order of report.

    The reference must have been built without an observer of its own. Names get the suffix ``[prefill]`` or
    ``[decode]``.
    """
    expected: dict[str, Tensor] = {}
    actual: dict[str, Tensor] = {}
    reference.observe = _keep(expected)
    reference.prefill(token_ids)
    request, _ = pool.add(token_ids, _keep(actual))
    comparisons = _compare(expected, actual, "prefill")
    expected.clear()
    actual.clear()
    reference.decode(next_token)
    with torch.no_grad():
        pool.model(**pool.step_inputs([request], [next_token]), observe=_keep(actual))
    pool.remove(request)
    reference.observe = None
    return comparisons + _compare(expected, actual, "decode")


def _keep(values: dict[str, Tensor]):
    return lambda name, value: values.__setitem__(name, value.clone())


def _compare(expected: dict[str, Tensor], actual: dict[str, Tensor], phase: str) -> list[OperationComparison]:
    return [
        OperationComparison(f"{name}[{phase}]", *_distance(actual[name], value))
        for name, value in expected.items()
        if name in actual
    ]


def _distance(actual: Tensor, expected: Tensor) -> tuple[bool, int]:
    actual = actual.reshape(*expected.shape[:-1], -1)
    # Fixed-width selections and scores have columns past those that exist so far.
    actual = actual[..., : expected.shape[-1]]
    expected = expected[..., : actual.shape[-1]]
    if actual.numel() == 0:
        return True, 0
    if expected.is_floating_point():
        if actual.dtype != expected.dtype:
            return False, int(ulp_distance(actual.to(expected.dtype), expected).max())
        distance = ulp_distance(actual, expected)
    else:
        distance = (actual.long() - expected.long()).abs()
    worst = int(distance.max())
    return worst == 0, worst
