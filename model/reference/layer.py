"""The two sublayers that every backbone layer and draft stage is made of."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from .hyper_connection import Mixes, collapse, compute_mixes, expand
from .moe import mixture
from .weights import Block


def run_sublayers(
    block: Block, streams: Tensor, pre: Tensor, attend: Callable[[Tensor], Tensor], experts_per_token: int
) -> tuple[Tensor, Tensor]:
    """Attention then experts on the streams [S, n, d]; returns the new streams and the next layer's ``pre`` [S, n].

    Each sublayer collapses the streams with the coefficients computed one sublayer earlier (DeepSeek-V4.1 inference
    code, model.py Block.forward).
    """
    mixes = compute_mixes(block, "attn", streams)
    streams = _sublayer(block, "attn", streams, pre, attend, mixes)
    pre = mixes.pre
    mixes = compute_mixes(block, "ffn", streams)
    streams = _sublayer(block, "ffn", streams, pre, lambda x: mixture(block, x, experts_per_token), mixes)
    return streams, mixes.pre


def _sublayer(
    block: Block, site: str, streams: Tensor, pre: Tensor, compute: Callable[[Tensor], Tensor], mixes: Mixes
) -> Tensor:
    collapsed = block.report(f"{site}.collapse", collapse(streams, pre))
    normed = block.report(f"{site}.norm", block.norm(f"{site}_norm", collapsed))
    return block.report(f"{site}.expand", expand(compute(normed), streams, mixes))
