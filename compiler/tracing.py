"""How AOTAutograd is asked to trace, for captured steps and for the Dynamo backend alike."""

from __future__ import annotations

from contextlib import AbstractContextManager

from torch.nn.attention import SDPBackend, sdpa_kernel


def plain_attention() -> AbstractContextManager[object]:
    """Trace scaled_dot_product_attention as the matrix products and softmax it is.

    The fused CPU operator saves a log-sum-exp for its backward that its published decomposition does not compute.
    """
    return sdpa_kernel(SDPBackend.MATH)
