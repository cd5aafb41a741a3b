"""Operators of ``transformers`` give what they give in eager PyTorch."""

from __future__ import annotations

import pytest
import torch
import transformers.integrations.moe  # noqa: F401  defines the operators
from deepinfer_neuron.compiler.lowering.decompositions.other_packages import OTHER_PACKAGES
from host_programs import Case, Host, case
from lowering_cases.values import normal

OPERATORS = torch.ops.transformers


def grouped(rows: int, ends: list[int]) -> list[Case]:
    x, weight, gradient = normal(rows, 6), normal(len(ends), 6, 5, seed=1), normal(rows, 5, seed=2)
    offsets = torch.tensor(ends, dtype=torch.int32)
    return [
        case(OPERATORS.grouped_mm_fallback.default, x, weight, offsets),
        case(OPERATORS.grouped_mm_fallback_backward.default, x, weight, offsets, gradient),
    ]


CASES = [
    *grouped(2, [0, 1, 1, 2]),
    *grouped(3, [0, 1, 1, 2]),  # the last row belongs to nobody
    *grouped(9, [4, 4, 9]),
    *grouped(9, [2, 4, 7]),
]


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def test_they_give_what_eager_gives(host: Host) -> None:
    for one, actual in zip(CASES, host.results(CASES, "fast"), strict=True):
        for got, expected in zip(actual, one.eager(), strict=True):
            torch.testing.assert_close(got, expected, msg=lambda text, one=one: f"{one}: {text}")


def test_every_operator_has_a_case() -> None:
    assert set(OTHER_PACKAGES) == {str(one.overload) for one in CASES}
