"""Host memory that a device can use without copying it."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..errors import DeviceError

ALIGNMENT = 64
"""Bytes: XLA copies a buffer that is less aligned, and an update in place would land in the copy."""


def aligned_empty(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Uninitialised contiguous memory of ``shape`` on an ``ALIGNMENT`` boundary."""
    size = torch.Size(shape).numel() * dtype.itemsize
    raw = torch.empty(size + ALIGNMENT, dtype=torch.uint8)
    offset = -raw.data_ptr() % ALIGNMENT
    return raw[offset : offset + size].view(dtype).view(shape)


def is_shareable(tensor: Tensor) -> bool:
    """Whether a device can use the tensor's own memory: on the CPU, contiguous, aligned and not lazily negated."""
    plain = tensor.device.type == "cpu" and tensor.is_contiguous() and not tensor.is_neg()
    return plain and tensor.data_ptr() % ALIGNMENT == 0


def check_shareable(tensor: Tensor) -> None:
    """Raise DeviceError for a tensor whose own memory a device cannot use."""
    if not is_shareable(tensor):
        raise DeviceError(
            f"a tensor of shape {list(tensor.shape)}, strides {list(tensor.stride())}, on {tensor.device}, "
            f"{tensor.data_ptr() % ALIGNMENT} bytes off a {ALIGNMENT}-byte boundary cannot be a host buffer: "
            "it must be contiguous, on the CPU and aligned; copy it into aligned_empty(shape, dtype)"
        )


def shareable_copy(tensor: Tensor) -> Tensor:
    """The same values in memory that a device can use."""
    return aligned_empty(tensor.shape, tensor.dtype).copy_(tensor.detach())
