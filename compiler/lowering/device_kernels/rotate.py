"""Rotary position embedding by the kernel of AWS's NKI library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from .kernel import Bar, DeviceKernel, NkiSource, OperatorCall

_HEAD_DIMENSIONS = (64, 128)
_LARGEST_FREE_SIZE = 73728 // 2
"""Heads times rows that fit: the library says 73728 for bfloat16, and float32 takes twice the memory."""


def _accepts(call: OperatorCall) -> bool:
    x, cos = call.arguments["x"], call.arguments["cos"]
    if x.dtype not in (torch.bfloat16, torch.float32) or len(x.shape) not in (2, 3):
        return False
    heads = x.shape[1] if len(x.shape) == 3 else 1
    return 2 * cos.shape[-1] in _HEAD_DIMENSIONS and heads * x.shape[0] <= _LARGEST_FREE_SIZE


def _operands(x: Tensor, cos: Tensor, sin: Tensor, inverse: bool) -> tuple[Tensor, ...]:
    """x as [channels, 1, heads, rows], cos and sin as [channels / 2, 1, rows]; each row has a position of its own."""
    rotated = x[..., -2 * cos.shape[-1] :].float().reshape(x.shape[0], -1, 2 * cos.shape[-1])
    signed = -sin if inverse else sin
    return rotated.permute(2, 1, 0).unsqueeze(1), cos.t().unsqueeze(1), signed.t().unsqueeze(1)


def _outputs(x: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, ...]:
    return (torch.empty(x.shape, dtype=x.dtype, device=x.device),)


def _result(outputs: tuple[Tensor, ...], x: Tensor, cos: Tensor, sin: Tensor, inverse: bool) -> Tensor:
    kept = x[..., : -2 * cos.shape[-1]]
    rotated = outputs[0].squeeze(1).permute(2, 1, 0).reshape(*kept.shape[:-1], -1)
    return torch.cat((kept, rotated.to(x.dtype)), -1)


def _constants(x: Tensor, cos: Tensor, sin: Tensor, inverse: bool) -> Mapping[str, Any]:
    return {"lnc_shard": False, "contiguous_layout": False, "relayout_in_sbuf": False}


def _examples(generator: torch.Generator) -> Sequence[tuple[Any, ...]]:
    def angles(rows: int, pairs: int) -> tuple[Tensor, Tensor]:
        angle = torch.rand(rows, pairs, generator=generator) * 1e3
        return torch.cos(angle), torch.sin(angle)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return (
        (normal(3, 4, 128).bfloat16(), *angles(3, 32), False),
        (normal(3, 4, 128).bfloat16(), *angles(3, 32), True),
        (normal(1, 64), *angles(1, 32), False),
        (normal(2, 1, 192), *angles(2, 64), True),
    )


ROTATE = DeviceKernel(
    name="nki-library's RoPE",
    operator="deepinfer.rotate.default",
    targets=("trn2", "trn3"),
    accepts=_accepts,
    operands=_operands,
    outputs=_outputs,
    result=_result,
    code=NkiSource("nkilib.core.embeddings.rope", "RoPE", ("x_in", "cos", "sin"), _constants),
    examples=_examples,
    bars={torch.bfloat16: Bar(1, 1e-3), torch.float32: Bar(2, of_largest=True)},
    evidence="reported",
    source="aws-neuron/nki-library, core/embeddings/rope.py: layouts, interleaved channels, head sizes and memory",
)
"""Adjacent channels are a pair, which the library calls the interleaved layout; it computes in the operands' dtype."""
