"""Operators defined outside PyTorch stay visible as composites over private functions."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.errors import LoweringError
from host_programs import Host, trace
from torch._decomp import decomposition_table

NAMESPACE = "lowering_test"


def scaled_body(x: torch.Tensor, scale: float) -> torch.Tensor:
    return torch.tanh(x) * scale


def halves_body(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    result = x.clone()
    result.mul_(2)
    return result[: x.shape[0] // 2], torch.ops.lowering_test.scaled(result, 3.0)


@pytest.fixture(scope="module")
def library() -> object:
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define("scaled(Tensor x, float scale) -> Tensor")
    library.define("halves(Tensor x) -> (Tensor, Tensor)")
    for name, body in (("scaled", scaled_body), ("halves", halves_body)):
        library.impl(name, body, "CPU")
        library.impl(name, body, "Meta")
        decomposition_table[getattr(torch.ops.lowering_test, name).default] = body
    yield library
    for name in ("scaled", "halves"):
        del decomposition_table[getattr(torch.ops.lowering_test, name).default]


@pytest.fixture(scope="module")
def host() -> Host:
    return Host()


def use_thrice(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    scaled = torch.ops.lowering_test.scaled
    return scaled(x, 2.0), scaled(x + 1, 2.0), scaled(y, 2.0), scaled(x, 0.5)


def nested(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ops.lowering_test.halves(x)


def test_one_private_function_for_each_signature(host: Host, library: object) -> None:
    x, y = torch.randn(4, 3), torch.randn(5)
    text = host.lower(trace(use_thrice, x, y)).text()
    assert text.count('stablehlo.composite "lowering_test.scaled"') == 4
    assert text.count("func.func private @scaled_") == 3


def test_private_functions_are_counted_once(host: Host, library: object) -> None:
    counts = host.lower(trace(use_thrice, torch.randn(4, 3), torch.randn(5))).operator_counts
    assert counts["lowering_test.scaled.default"] == 4
    assert counts["aten.tanh.default"] == 3


@pytest.mark.parametrize("numerics", ["fast", "exact"])
def test_composites_compute_their_decomposition(host: Host, library: object, numerics: str) -> None:
    x, y = torch.randn(4, 3), torch.randn(5)
    for actual, expected in zip(host.run(trace(use_thrice, x, y), [x, y], numerics), use_thrice(x, y), strict=True):
        torch.testing.assert_close(actual, expected)


def test_mutating_and_nested_decompositions(host: Host, library: object) -> None:
    x = torch.randn(4, 3)
    module = trace(nested, x)
    assert host.lower(module).text().count("stablehlo.composite") == 2
    for actual, expected in zip(host.run(module, [x]), nested(x), strict=True):
        torch.testing.assert_close(actual, expected)


def test_types_that_the_body_does_not_take_are_refused(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    with torch.library._scoped_library(NAMESPACE, "FRAGMENT") as library:
        library.define("pairs(Tensor x) -> Tensor")
        # The rule for shapes takes any; the body wants an even number of values.
        library.impl("pairs", lambda x: x.clone(), "CPU")
        library.impl("pairs", torch.empty_like, "Meta")
        pairs = torch.ops.lowering_test.pairs
        monkeypatch.setitem(decomposition_table, pairs.default, lambda x: x.unflatten(0, (-1, 2)).flatten())
        assert host.run(trace(pairs, torch.ones(4)), [torch.ones(4)])[0].tolist() == [1] * 4
        with pytest.raises(
            LoweringError, match=r"pairs.default: its decomposition does not take \(torch.float32\[3\]\)"
        ):
            host.lower(trace(pairs, torch.ones(3)))


def test_the_same_tensor_twice_is_another_signature(host: Host) -> None:
    body = lambda x, y: x - 2 * y  # noqa: E731
    with torch.library._scoped_library(NAMESPACE, "FRAGMENT") as library:
        library.define("difference(Tensor x, Tensor y) -> Tensor")
        library.impl("difference", body, "CPU")
        library.impl("difference", body, "Meta")
        difference = torch.ops.lowering_test.difference
        decomposition_table[difference.default] = body
        x, y = torch.randn(3), torch.randn(3)
        module = trace(lambda x, y: (difference(x, x), difference(x, y), difference(y, x)), x, y)
        actual = host.run(module, [x, y])
        del decomposition_table[difference.default]
    for got, expected in zip(actual, (body(x, x), body(x, y), body(y, x)), strict=True):
        torch.testing.assert_close(got, expected)
