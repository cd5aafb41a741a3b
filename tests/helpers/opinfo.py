"""Samples of PyTorch's own database of operators, and what became of one that was compiled."""

from __future__ import annotations

import copy
import sys
import types
import unittest
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import torch
from deepinfer_neuron.errors import DeepInferNeuronError
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

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

TOLERANCES = {
    **dict.fromkeys((torch.bfloat16, torch.float16, torch.complex32), 2e-2),
    **dict.fromkeys((torch.float32, torch.float64, torch.complex64, torch.complex128), 1e-4),
}


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

    def call(self) -> Any:
        """What eager PyTorch gives for copies of the arguments."""
        arguments, keywords = copy.deepcopy((self.arguments, self.keywords))
        return self.operator(*arguments, **keywords)

    def in_float64(self) -> Sample:
        """The same call of wider numbers."""

        def widened(leaf: Any) -> Any:
            return leaf.double() if isinstance(leaf, torch.Tensor) and leaf.is_floating_point() else leaf

        return replace(self, arguments=tree_map(widened, self.arguments), keywords=tree_map(widened, self.keywords))


def samples(names: frozenset[str] | None = None, dtypes: Sequence[torch.dtype] = DTYPES) -> Iterator[Sample]:
    """The first samples of each operator and dtype for which eager PyTorch gives a result."""
    for operator in op_db:
        if names is not None and operator.name not in names:
            continue
        for dtype in dtypes:
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
    """ "right", "refused" with the reason, "eager refuses it", or what is wrong with the compiled call."""
    return _judged(sample, Sample.call, _compiled_call)


def backward_verdict(sample: Sample) -> str:
    """``verdict`` about the gradients of an operator that has some."""
    return _judged(sample, lambda one: _gradients(one, one.operator), lambda one: _gradients(one, _compiled(one)))


def _judged(sample: Sample, eager: Callable[[Sample], Any], compiled: Callable[[Sample], Any]) -> str:
    torch._dynamo.reset()
    try:
        expected = eager(sample)
    except Exception:
        return "eager refuses it"
    try:
        actual = compiled(sample)
    except Exception as error:
        refusal = _refusal(error)
        return f"refused: {refusal}" if refusal else f"{sample} crashed: {type(error).__name__}: {error}"
    return _comparison(sample, eager, tree_leaves(actual), tree_leaves(expected))


def _compiled(sample: Sample) -> Callable[..., Any]:
    return torch.compile(
        lambda *arguments, **keywords: sample.operator(*arguments, **keywords), backend="deepinfer_neuron"
    )


def _compiled_call(sample: Sample) -> Any:
    arguments, keywords = copy.deepcopy((sample.arguments, sample.keywords))
    return _compiled(sample)(*arguments, **keywords)


def _gradients(sample: Sample, function: Callable[..., Any]) -> Sequence[torch.Tensor | None]:
    """Of a weighted sum of all results, by every floating-point argument."""
    leaves, structure = tree_flatten(copy.deepcopy((sample.arguments, sample.keywords)))
    leaves = [one.detach().requires_grad_() if _is_differentiable(one) else one for one in leaves]
    wanted = [one for one in leaves if _is_differentiable(one)]
    arguments, keywords = tree_unflatten(leaves, structure)
    results = [one for one in tree_leaves(function(*arguments, **keywords)) if _is_differentiable(one) and one.grad_fn]
    if not wanted or not results:
        return []
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(one.shape, generator=generator, dtype=one.dtype) for one in results]
    return torch.autograd.grad(results, wanted, weights, allow_unused=True)


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _refusal(error: BaseException) -> DeepInferNeuronError | None:
    """The refusal that an error of a compiled call is about."""
    cause = getattr(error, "inner_exception", None) or error
    return cause if isinstance(cause, DeepInferNeuronError) else None


def _comparison(sample: Sample, eager: Callable[[Sample], Any], actual: list[Any], expected: list[Any]) -> str:
    try:
        for position, (got, wanted) in enumerate(zip(actual, expected, strict=True)):
            _compare(sample, got, wanted, _is_position(sample, position, len(expected)))
    except AssertionError as error:
        return (
            "right"
            if _is_nearer(tree_leaves(eager(sample.in_float64())), actual, expected)
            else f"{sample} is wrong: {error}"
        )
    return "right"


def _is_position(sample: Sample, number: int, count: int) -> bool:
    """Whether a result holds positions of values, the result in front of it."""
    return sample.operator.name == "argsort" or (sample.operator.name in ANY_POSITION and count == 2 and number == 1)


def _compare(sample: Sample, got: Any, wanted: Any, any_position: bool) -> None:
    if not isinstance(wanted, torch.Tensor):
        assert got == wanted
    elif sample.operator.name in UNDEFINED:
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
    elif any_position:
        assert (got.dtype, got.shape) == (wanted.dtype, wanted.shape)
        assert not wanted.numel() or (got.min() >= 0 and got.max() < max(sample.arguments[0].numel(), 1))
    else:
        tolerance = TOLERANCES.get(wanted.dtype, 0.0)
        torch.testing.assert_close(got, wanted, equal_nan=True, rtol=tolerance, atol=tolerance / 5)


def _is_nearer(exact: list[Any], actual: list[Any], expected: list[Any]) -> bool:
    """Whether floats are nearer to a result in float64 than eager's own are, give or take a half."""
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
