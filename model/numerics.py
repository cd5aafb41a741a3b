"""Which of the model's rounding steps are on."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Numerics:
    """The released model runs with the defaults; the other settings exist to compare with other implementations.

    ``kv_quant``: cache rows and index vectors pass through their fp8 or fp4 grid. ``act_quant``: inputs of quantised
    linears pass through the fp8 grid.
    """

    dtype: torch.dtype = torch.bfloat16
    kv_quant: bool = True
    act_quant: bool = True
