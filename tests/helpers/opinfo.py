"""Samples of PyTorch's own database of operators, and what became of one that was compiled."""

from __future__ import annotations

import copy
import sys
import types
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from deepinfer_neuron.errors import DeepInferNeuronError
from torch.utils._pytree import tree_leaves, tree_map

# PyTorch's helpers derive a base class for tests of their own from this package; samples need nothing of it.
_stand_in = types.ModuleType("expecttest")
_stand_in.TestCase = unittest.TestCase  # pyright: ignore[reportAttributeAccessIssue]
sys.modules.setdefault("expecttest", _stand_in)

from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

DTYPES = (torch.float32, torch.bfloat16, torch.int64, torch.bool)
SAMPLES = 3

UNDEFINED = frozenset({"empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided"})
"""Their values are not defined: shape, dtype and strides are compared."""

ANY_POSITION = frozenset({"argsort", "kthvalue", "median", "mode", "nanmedian", "sort", "topk"})
"""Among equal elements they may give the position of any, so that of positions only type and range are compared."""

TOLERANCES = {torch.bfloat16: 2e-2, torch.float16: 2e-2, torch.float32: 1e-4, torch.float64: 1e-4}


@dataclass(frozen=True)
class Sample:
    """One call of an operator of the database."""

    operator: Any
    dtype: torch.dtype
    number: int
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]

    def __str__(self) -> str:
        variant = self.operator.variant_test_name
        name = f"{self.operator.name}.{variant}" if variant else self.operator.name
        return f"{name} {str(self.dtype)[6:]} sample {self.number}"

    def call(self, change: Callable[[Any], Any] = lambda leaf: leaf) -> Any:
        """What eager PyTorch gives for copies of the arguments."""
        arguments, keywords = tree_map(change, copy.deepcopy((self.arguments, self.keywords)))
        return self.operator(*arguments, **keywords)


def samples(names: frozenset[str] | None = None) -> Iterator[Sample]:
    """The first samples of each operator and dtype for which eager PyTorch gives a result."""
    for operator in op_db:
        if names is not None and operator.name not in names:
            continue
        for dtype in DTYPES:
            if dtype in operator.supported_dtypes("cpu"):
                torch.manual_seed(0)
                yield from _of_dtype(operator, dtype)


def _of_dtype(operator: Any, dtype: torch.dtype) -> Iterator[Sample]:
    try:
        drawn = list(islice(operator.sample_inputs("cpu", dtype), SAMPLES))
    except Exception:  # the database itself has no sample of this type
        return
    for number, one in enumerate(drawn):
        yield Sample(operator, dtype, number, (one.input, *one.args), one.kwargs)


def verdict(sample: Sample) -> str:
    """ "right", "refused", or what is wrong with the compiled call."""
    torch._dynamo.reset()
    try:
        expected = sample.call()
    except Exception:
        return "right"  # eager refuses it too
    compiled = torch.compile(
        lambda *arguments, **keywords: sample.operator(*arguments, **keywords), backend="deepinfer_neuron"
    )
    arguments, keywords = copy.deepcopy((sample.arguments, sample.keywords))
    try:
        actual = compiled(*arguments, **keywords)
    except Exception as error:
        return "refused" if _is_refusal(error) else f"{sample} crashed: {type(error).__name__}: {error}"
    return _comparison(sample, tree_leaves(actual), tree_leaves(expected))


def _is_refusal(error: BaseException) -> bool:
    cause = getattr(error, "inner_exception", None) or error
    return isinstance(cause, DeepInferNeuronError)


def _comparison(sample: Sample, actual: list[Any], expected: list[Any]) -> str:
    try:
        for got, wanted in zip(actual, expected, strict=True):
            _compare(sample, got, wanted)
    except AssertionError as error:
        return "right" if _is_nearer(sample, actual, expected) else f"{sample} is wrong: {error}"
    return "right"


def _compare(sample: Sample, got: Any, wanted: Any) -> None:
    if not isinstance(wanted, torch.Tensor):
        assert got == wanted
    elif sample.operator.name in UNDEFINED:
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    elif sample.operator.name in ANY_POSITION and wanted.dtype is torch.int64 and sample.dtype is not torch.int64:
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        assert not wanted.numel() or (
            got.min() >= 0 and got.max() <= wanted.max().clamp(min=sample.arguments[0].numel())
        )
    else:
        tolerance = TOLERANCES.get(wanted.dtype, 0.0)
        torch.testing.assert_close(got, wanted, equal_nan=True, rtol=tolerance, atol=tolerance / 5)


def _is_nearer(sample: Sample, actual: list[Any], expected: list[Any]) -> bool:
    """Whether floats are nearer to a result in float64 than eager's own are, give or take a half."""

    def widened(leaf: Any) -> Any:
        return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

    exact = tree_leaves(sample.call(widened))
    for got, wanted, truth in zip(actual, expected, exact, strict=True):
        if not isinstance(wanted, torch.Tensor) or not wanted.is_floating_point():
            if not torch.equal(got, wanted):
                return False
            continue
        finite = truth.isfinite()
        if not torch.equal(got.isfinite(), wanted.isfinite()) or not finite.any():
            return False
        ours, theirs = ((one.double() - truth)[finite].abs().max() for one in (got, wanted))
        if ours > 1.5 * theirs:
            return False
    return True
