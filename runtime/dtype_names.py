"""What PyTorch's dtypes are called in files and in messages, such as ``bfloat16``."""

from __future__ import annotations

from typing import Any

import torch


def name_of(dtype: torch.dtype) -> str:
    """The name of a dtype, without ``torch.``."""
    return str(dtype).removeprefix("torch.")


def dtype_named(name: Any) -> torch.dtype:
    """The dtype that ``name_of`` gave a name; raises ValueError, which says the name, if there is none."""
    found = getattr(torch, name, None) if isinstance(name, str) else None
    if not isinstance(found, torch.dtype):
        raise ValueError(f"{name!r} is not a dtype of PyTorch")
    return found
