"""Routing and the mixture of experts.

Meaning: DeepSeek-V4.1 inference code, model.py ``Gate``, ``Expert`` and ``MoE``.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from .library import kernel
from .quantization import quantized
from .rounded_math import silu, softplus

WEIGHT_SUM_FLOOR = 1e-20


def _route_shape(x: Tensor, gate: Tensor, bias: Tensor, count: int, scale: float) -> tuple[Tensor, Tensor]:
    rows = x.shape[0]
    return gate.new_empty(rows, count, dtype=torch.int32), gate.new_empty(rows, count)


@kernel("route(Tensor x, Tensor gate, Tensor bias, int count, float scale) -> (Tensor, Tensor)", _route_shape)
def route(x: Tensor, gate: Tensor, bias: Tensor, count: int, scale: float) -> tuple[Tensor, Tensor]:
    """The ``count`` experts of each row of x [M, d]: ids int32 [M, count], ascending, and their float32 weights.

    gate [E, d] and bias [E] float32. The bias takes part in the choice only. Ties go to the lower id.
    """
    scores = torch.sqrt(softplus(functional.linear(x.float(), gate)))
    ranked = torch.sort(scores + bias, dim=-1, descending=True, stable=True).indices[:, :count]
    weights = scores.gather(1, ranked)
    if count > 1:
        weights = weights / (weights.sum(-1, keepdim=True) + WEIGHT_SUM_FLOOR)
    weights = weights * scale
    ids, order = torch.sort(ranked.to(torch.int32), dim=-1, stable=True)
    return ids, weights.gather(1, order)


def _swiglu_shape(gate: Tensor, up: Tensor, limit: float) -> Tensor:
    return torch.empty_like(gate)


@kernel("swiglu(Tensor gate, Tensor up, float limit) -> Tensor", _swiglu_shape)
def swiglu(gate: Tensor, up: Tensor, limit: float) -> Tensor:
    """silu(min(gate, limit)) * clamp(up, -limit, limit) in float32, returned in gate's dtype (Shazeer 2020)."""
    return _activate(gate, up, limit).to(gate.dtype)


def _activate(gate: Tensor, up: Tensor, limit: float) -> Tensor:
    return silu(gate.float().clamp(max=limit)) * up.float().clamp(-limit, limit)


def _mix_shape(
    x: Tensor, ids: Tensor, weights: Tensor, w1: Tensor, w3: Tensor, w2: Tensor, limit: float, fp8_max: float | None
) -> Tensor:
    return torch.empty_like(x, dtype=torch.float32)


def _mix_static(
    x: Tensor, ids: Tensor, weights: Tensor, w1: Tensor, w3: Tensor, w2: Tensor, limit: float, fp8_max: float | None
) -> Tensor:
    """Static shapes: gather the chosen experts while they are fewer than all experts, else run every expert."""
    rows, count = ids.shape
    if rows * count < w1.shape[0]:
        return _mix_gathered(x, ids, weights, w1, w3, w2, limit, fp8_max)
    return _mix_dense(x, ids, weights, w1, w3, w2, limit, fp8_max)


def _mix_gathered(
    x: Tensor, ids: Tensor, weights: Tensor, w1: Tensor, w3: Tensor, w2: Tensor, limit: float, fp8_max: float | None
) -> Tensor:
    rows, count = ids.shape
    chosen = ids.flatten()
    inputs = quantized(x, fp8_max).unsqueeze(1).expand(-1, count, -1).reshape(rows * count, 1, -1)
    gate = torch.bmm(inputs, w1[chosen].transpose(1, 2))
    up = torch.bmm(inputs, w3[chosen].transpose(1, 2))
    hidden = (_activate(gate, up, limit) * weights.view(-1, 1, 1)).to(x.dtype)
    output = torch.bmm(quantized(hidden, fp8_max), w2[chosen].transpose(1, 2))
    return _accumulate(output.view(rows, count, -1).float())


def _mix_dense(
    x: Tensor, ids: Tensor, weights: Tensor, w1: Tensor, w3: Tensor, w2: Tensor, limit: float, fp8_max: float | None
) -> Tensor:
    rows = x.shape[0]
    experts, inner, _ = w1.shape
    share = torch.zeros(rows, experts, dtype=torch.float32, device=x.device).scatter(1, ids.long(), weights)
    inputs = quantized(x, fp8_max)
    gate = functional.linear(inputs, w1.flatten(0, 1)).view(rows, experts, inner)
    up = functional.linear(inputs, w3.flatten(0, 1)).view(rows, experts, inner)
    hidden = (_activate(gate, up, limit) * share.unsqueeze(-1)).to(x.dtype)
    output = torch.bmm(quantized(hidden, fp8_max).transpose(0, 1), w2.transpose(1, 2))
    return _accumulate(output.float().transpose(0, 1))


def _accumulate(outputs: Tensor) -> Tensor:
    """Sum of [M, n, d] over n from a zero start, in order."""
    total = torch.zeros_like(outputs[:, 0])
    for output in outputs.unbind(1):
        total = total + output
    return total


@kernel(
    "mix_experts(Tensor x, Tensor ids, Tensor weights, Tensor w1, Tensor w3, Tensor w2, float limit, float? fp8_max) "
    "-> Tensor",
    _mix_shape,
    decomposition=_mix_static,
)
def mix_experts(
    x: Tensor, ids: Tensor, weights: Tensor, w1: Tensor, w3: Tensor, w2: Tensor, limit: float, fp8_max: float | None
) -> Tensor:
    """Weighted outputs of each row's experts, summed in float32 by ascending expert id: x [M, d] to [M, d].

    ids int32 [M, k], weights float32 [M, k]; w1, w3 [E, inner, d] and w2 [E, d, inner] in x's dtype. The weight is
    applied before the second product, whose input is quantised again. ``fp8_max`` as in ``quantized_linear``.
    """
    inputs = quantized(x, fp8_max)
    total = torch.zeros_like(x, dtype=torch.float32)
    for expert in ids.unique().tolist():
        rows, slots = torch.where(ids == expert)
        gate = functional.linear(inputs[rows], w1[expert])
        up = functional.linear(inputs[rows], w3[expert])
        hidden = (_activate(gate, up, limit) * weights[rows, slots].unsqueeze(-1)).to(x.dtype)
        total[rows] += functional.linear(quantized(hidden, fp8_max), w2[expert]).float()
    return total
