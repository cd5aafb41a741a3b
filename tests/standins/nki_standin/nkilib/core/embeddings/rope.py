"""Stand-in for the RoPE kernel of nki-library: the signature and the meaning of its documentation, in torch."""

from __future__ import annotations

import torch


def RoPE(x_in, cos, sin, lnc_shard=False, contiguous_layout=True, relayout_in_sbuf=False):  # noqa: N802
    """x_in [d_head, B, heads, S], cos and sin [d_head / 2, B, S]: pairs are halves, or neighbours if not contiguous."""
    channels = x_in.shape[0]
    assert channels in (64, 128)
    half = channels // 2
    even, odd = (x_in[:half], x_in[half:]) if contiguous_layout else (x_in[0::2], x_in[1::2])
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    new_even, new_odd = even * cos - odd * sin, odd * cos + even * sin
    out = torch.empty_like(x_in)
    if contiguous_layout:
        out[:half], out[half:] = new_even, new_odd
    else:
        out[0::2], out[1::2] = new_even, new_odd
    return out
