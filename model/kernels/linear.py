"""Matrix products with decoded low-precision weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .library import kernel
from .quantization import quantized


def _linear_shape(x: Tensor, weight: Tensor, fp8_max: float | None) -> Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0])


@kernel("quantized_linear(Tensor x, Tensor weight, float? fp8_max) -> Tensor", _linear_shape)
def quantized_linear(x: Tensor, weight: Tensor, fp8_max: float | None) -> Tensor:
    """x [..., in] times weight [out, in] transposed, x quantised to fp8 up to ``fp8_max``; in x's dtype.

    e4m3 and e2m1 values times a power of two are exact in bfloat16, so this equals the inference code's fp8_gemm and
    fp4_gemm up to the order of summation. ``fp8_max`` None leaves x as it is.
    """
    return functional.linear(quantized(x, fp8_max), weight)


def _grouped_shape(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0], weight.shape[1])


@kernel("grouped_linear(Tensor x, Tensor weight) -> Tensor", _grouped_shape)
def grouped_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x [M, groups, in] times weight [groups, out, in] transposed, group by group: [M, groups, out] in x's dtype."""
    return torch.bmm(x.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1).contiguous()
