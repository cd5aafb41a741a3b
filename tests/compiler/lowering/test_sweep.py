"""Every registered overload, lowered, compiled for the host, run, and compared with eager PyTorch."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import pytest
import torch
from deepinfer_neuron.compiler.lowering import lower
from deepinfer_neuron.compiler.lowering.inexact import INEXACT, Inexact
from deepinfer_neuron.compiler.lowering.primitives import SAME_AS_ATEN
from deepinfer_neuron.compiler.lowering.registry import LOWERINGS
from host_programs import Case, Host
from lowering_cases import (
    arithmetic,
    comparison,
    convolution,
    indexing,
    matmul,
    pointwise,
    pooling,
    primitives,
    reduction,
    shape,
)
from ulps import same_bits, ulps

MODULES = (
    arithmetic,
    comparison,
    convolution,
    indexing,
    matmul,
    pointwise,
    pooling,
    primitives,
    reduction,
    shape,
)

FAST_ULPS = {torch.float64: 2.0**31, torch.float32: 64.0, torch.bfloat16: 2.0, torch.float16: 2.0}
"""Fast numerics may drop float64 and reorder additions; measured against the largest element."""


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


@pytest.fixture(scope="module", params=MODULES, ids=lambda module: module.__name__.rpartition(".")[2])
def family(request: pytest.FixtureRequest) -> ModuleType:
    return request.param


def mistakes(case: Case, actual: list[torch.Tensor], entry: Inexact | None) -> list[str]:
    """What is wrong with the exact results of one case."""
    found = []
    for got, expected in zip(actual, case.eager(), strict=True):
        if same_bits(got, expected):
            continue
        if entry is None or got.dtype is not expected.dtype or not expected.dtype.is_floating_point:
            found.append(f"{case}: got {got}, expected {expected}")
        elif (distance := ulps(got, expected, entry.of_largest)) > entry.ulps:
            found.append(f"{case}: {distance} ulps, the table allows {entry.ulps}")
    return found


def test_exact_numerics_give_eager_bits(host: Host, family: ModuleType) -> None:
    results = host.results(family.CASES, "exact")
    found: list[str] = []
    differing: set[Any] = set()
    for case, actual in zip(family.CASES, results, strict=True):
        known = SAME_AS_ATEN.get(case.overload, case.overload)
        found += mistakes(case, actual, INEXACT.get(known))
        if not all(map(same_bits, actual, case.eager())):
            differing.add(case.overload)
    assert not found, "\n".join(found)
    listed = {case.overload for case in family.CASES} & set(INEXACT)
    assert not listed - differing, "the table of inexact operators lists operators that give eager's bits"


def test_fast_numerics_are_close(host: Host, family: ModuleType) -> None:
    found = []
    for case, actual in zip(family.CASES, host.results(family.CASES, "fast"), strict=True):
        for got, expected in zip(actual, case.eager(), strict=True):
            assert (got.dtype, got.shape) == (expected.dtype, expected.shape), str(case)
            if same_bits(got, expected):
                continue
            allowed = FAST_ULPS.get(expected.dtype, 0.0)
            if not expected.dtype.is_floating_point or ulps(got, expected, of_largest=True) > allowed:
                found.append(f"{case}: got {got}, expected {expected}")
    assert not found, "\n".join(found)


def test_undefined_memory_has_the_right_type(host: Host) -> None:
    for case, (actual,) in zip(shape.UNDEFINED, host.results(shape.UNDEFINED, "fast"), strict=True):
        (expected,) = case.eager()
        assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)


def test_every_registered_overload_is_swept() -> None:
    swept = {case.overload for module in MODULES for case in module.CASES}
    swept |= {case.overload for case in shape.UNDEFINED}
    assert not set(LOWERINGS) - swept


def test_every_family_registers_rules() -> None:
    modules = {rule.__module__ for rule in LOWERINGS.values()}
    assert modules == {family.__name__ for family in lower.FAMILIES}
