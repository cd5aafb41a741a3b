"""The mixture of experts: sqrt-softplus routing, clamped SwiGLU experts, one shared expert."""

from __future__ import annotations

import torch
from torch import Tensor

from .kernels import silu, softplus, top_indices
from .weights import Block


def mixture(block: Block, x: Tensor, experts_per_token: int) -> Tensor:
    """x [S, d] -> [S, d]: routed experts added in float32 by ascending id, then the shared one, rounded once."""
    ids, weights = route(block, x, experts_per_token)
    routed = block.report("ffn.routed", _routed_sum(block, x, ids, weights))
    shared = block.report("ffn.shared", expert(block, "ffn.shared_experts", x))
    return block.report("ffn.output", (routed + shared.float()).to(x.dtype))


def route(block: Block, x: Tensor, experts_per_token: int) -> tuple[Tensor, Tensor]:
    """Expert ids int64 [S, k], ascending, and their weights float32 [S, k] in that order.

    Scores are sqrt(softplus(x . W)); the bias takes part in the choice only. Weights are the chosen scores over their
    sum (best first), times the routed scaling factor (model.py Gate.forward, ``sqrtsoftplus``).
    """
    scores = torch.sqrt(softplus(block.float_linear("ffn.gate", x)))
    chosen = top_indices(scores + block.tensor("ffn.gate.bias"), experts_per_token)
    weights = scores.gather(1, chosen)
    if experts_per_token > 1:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    weights = weights * block.config.routed_scaling_factor
    ids, order = chosen.sort(dim=-1)
    weights = weights.gather(1, order)
    return block.report("ffn.expert_ids", ids), block.report("ffn.expert_weights", weights)


def expert(block: Block, name: str, x: Tensor, weight: Tensor | None = None) -> Tensor:
    """w2(silu(min(w1 x, limit)) * clamp(w3 x, +-limit)) for x [n, d]; a routing ``weight`` [n, 1] enters before w2."""
    limit = block.config.swiglu_limit
    gate = block.quantised_linear(f"{name}.w1", x).float().clamp(max=limit)
    up = block.quantised_linear(f"{name}.w3", x).float().clamp(-limit, limit)
    activated = silu(gate) * up
    if weight is not None:
        activated = activated * weight
    return block.quantised_linear(f"{name}.w2", activated.to(x.dtype))


def _routed_sum(block: Block, x: Tensor, ids: Tensor, weights: Tensor) -> Tensor:
    total = torch.zeros(x.shape)
    for expert_id in ids.unique().tolist():
        tokens, place = torch.where(ids == expert_id)
        output = expert(block, f"ffn.experts.{expert_id}", x[tokens], weights[tokens, place, None])
        total[tokens] += output.float()
    return total
