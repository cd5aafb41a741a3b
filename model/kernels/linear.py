"""Matrix products with decoded low-precision weights."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .library import kernel
from .quantization import quantize_fp8


def _linear_shape(x: Tensor, weight: Tensor, quantize: bool) -> Tensor:
    return x.new_empty(*x.shape[:-1], weight.shape[0])


@kernel("quantized_linear(Tensor x, Tensor weight, bool quantize) -> Tensor", _linear_shape)
def quantized_linear(x: Tensor, weight: Tensor, quantize: bool) -> Tensor:
    """x [..., in] times weight [out, in] transposed, after fp8 quantisation of x; result in x's dtype.

    e4m3 and e2m1 values times a power of two are exact in bfloat16, so this equals the inference code's fp8_gemm and
    fp4_gemm up to the order of summation. ``quantize`` off leaves x as it is.
    """
    return functional.linear(quantize_fp8(x) if quantize else x, weight)


def _grouped_shape(x: Tensor, weight: Tensor) -> Tensor:
    return x.new_empty(x.shape[0], weight.shape[0], weight.shape[1])


@kernel("grouped_linear(Tensor x, Tensor weight) -> Tensor", _grouped_shape)
def grouped_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x [M, groups, in] times weight [groups, out, in] transposed, group by group: [M, groups, out] in x's dtype."""
    return torch.bmm(x.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1).contiguous()
