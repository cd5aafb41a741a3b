"""How AOTAutograd is asked to trace, for captured steps and for the Dynamo backend alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch.nn.attention import SDPBackend, sdpa_kernel

from ...passes.lazy_module import lazy_modules


@contextmanager
def plain_tracing() -> Iterator[None]:
    """Trace scaled_dot_product_attention as the matrix products and softmax it is, and generate no Python code.

    The fused CPU operator saves a log-sum-exp for its backward that its published decomposition does not compute.
    """
    with sdpa_kernel(SDPBackend.MATH), lazy_modules():
        yield
