"""Operators whose exact lowering still differs from eager PyTorch on the CPU, why, and by how much.

Every operator that is not listed gives the same bits; a prim is as exact as the aten operator it repeats.
"nearest" means that the lowering computes in float64 and rounds once, so that the distance is eager's own error.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch._ops import OpOverload

aten = torch.ops.aten
prims = torch.ops.prims


@dataclass(frozen=True)
class Inexact:
    """``ulps``: largest distance measured, in units of the last place of the expected element.

    With ``of_largest`` the unit is that of the largest element: terms of opposite sign cancel.
    Zero means that only the sign of a zero differs.
    """

    reason: str
    ulps: int
    of_largest: bool = False


_NEAREST = "nearest; eager's vector routine is not"
_DOT = "the order of additions inside a matrix product is the library's own; measured up to 6144 of them"
_MOMENTS = "eager updates mean and squares together (Welford), in vector lanes"
_ZERO = "of two zeros, eager takes the first or the second depending on the vector lane"

INEXACT: dict[OpOverload, Inexact] = {
    aten.exp.default: Inexact(_NEAREST, 2),
    aten.expm1.default: Inexact(_NEAREST, 1),
    aten.exp2.default: Inexact(_NEAREST, 1),
    aten.log.default: Inexact(_NEAREST, 1),
    aten.log1p.default: Inexact(_NEAREST, 2),
    aten.log2.default: Inexact("a scaled natural logarithm; eager has its own routine", 1),
    aten.log10.default: Inexact("a scaled natural logarithm; eager has its own routine", 2),
    aten.sqrt.default: Inexact(_NEAREST, 1),
    aten.tanh.default: Inexact(_NEAREST, 1),
    aten.sin.default: Inexact(_NEAREST, 1),
    aten.cos.default: Inexact(_NEAREST, 1),
    aten.tan.default: Inexact(_NEAREST, 1),
    aten.asin.default: Inexact(_NEAREST, 1),
    aten.acos.default: Inexact(_NEAREST, 1),
    aten.atan.default: Inexact(_NEAREST, 1),
    aten.sinh.default: Inexact(_NEAREST, 1),
    aten.cosh.default: Inexact(_NEAREST, 1),
    aten.atan2.default: Inexact("two libraries' routines", 1),
    aten.erf.default: Inexact(_NEAREST, 1),
    aten.pow.Tensor_Scalar: Inexact(_NEAREST, 1),
    aten.pow.Tensor_Tensor: Inexact(_NEAREST, 1),
    aten.rsqrt.default: Inexact("eager rounds a bf16 root before dividing, in the last partial vector only", 1),
    aten.sigmoid.default: Inexact("its exponential is nearest, eager's is not", 2),
    aten.silu.default: Inexact("its exponential is nearest, eager's is not", 2),
    aten.softplus.default: Inexact("its exponential and logarithm are nearest, eager's are not", 2),
    aten.gelu.default: Inexact("1 + erf cancels, and eager's erf is a polynomial", 2, of_largest=True),
    aten.maximum.default: Inexact(_ZERO, 0),
    aten.minimum.default: Inexact(_ZERO, 0),
    aten._softmax.default: Inexact("eager's softmax has an exponential of 20 bits", 3),
    aten._safe_softmax.default: Inexact("eager's softmax has an exponential of 20 bits", 3),
    aten._log_softmax.default: Inexact("eager's softmax has its own exponential and order of additions", 3),
    aten._native_batch_norm_legit_no_training.default: Inexact(
        "eager fuses some of its products and sums, depending on the vector lane", 1, of_largest=True
    ),
    aten.native_layer_norm.default: Inexact(_MOMENTS, 2, of_largest=True),
    aten.var_mean.correction: Inexact(_MOMENTS, 2),
    aten.std.correction: Inexact(_MOMENTS, 1),
    prims.var.default: Inexact(_MOMENTS, 2),
    prims.prod.default: Inexact("eager multiplies in its own vector lanes", 8),
    aten.linalg_vector_norm.default: Inexact("eager adds powers in its own vector lanes", 2),
    aten.index_add.default: Inexact("XLA adds duplicate bf16 rows in float32 and rounds once", 1),
    aten.mm.default: Inexact(_DOT, 32, of_largest=True),
    aten.bmm.default: Inexact(_DOT, 4, of_largest=True),
    aten.mv.default: Inexact(_DOT, 4, of_largest=True),
    aten.dot.default: Inexact(_DOT, 8, of_largest=True),
    aten.baddbmm.default: Inexact(_DOT, 4, of_largest=True),
    aten.linear.default: Inexact(_DOT, 8, of_largest=True),
    aten.matmul.default: Inexact(_DOT, 4, of_largest=True),
}
