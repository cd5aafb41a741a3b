"""Weights of a reference run, decoded once, and the three kinds of linear that use them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ..checkpoint.formats import decode_engram_rows, simulate_act_quant
from ..checkpoint.loader import Checkpoint
from ..config import ModelConfig
from ..numerics import Numerics
from .kernels import rms_norm


class Observer(Protocol):
    """Receives named intermediate values of a run; tensors must not be modified."""

    def __call__(self, name: str, value: Tensor, /) -> None: ...


class Weights:
    """The tensors of one checkpoint in the dtypes of one run; each is decoded at its first use and kept."""

    def __init__(self, checkpoint: Checkpoint, numerics: Numerics) -> None:
        self.config: ModelConfig = checkpoint.config
        self.numerics = numerics
        self._checkpoint = checkpoint
        self._kept: dict[tuple[str, torch.dtype], Tensor] = {}

    def decoded(self, prefix: str) -> Tensor:
        """The matrix ``prefix.weight``, times its scales if it has any, in the run's dtype."""
        dtype = self.numerics.dtype
        return self._keep(
            prefix, dtype, lambda: self._checkpoint.decoded(prefix, dtype, self.numerics.rescales_weights)
        )

    def tensor(self, name: str, dtype: torch.dtype = torch.float32) -> Tensor:
        """An unquantised tensor by its full name."""
        return self._keep(name, dtype, lambda: self._checkpoint.tensor(name).to(dtype))

    def embedding(self, name: str, token_ids: Tensor) -> Tensor:
        """Rows [..., d] of an embedding matrix in the run's dtype; the matrix itself stays on disk."""
        return self._checkpoint.tensor(name)[token_ids].to(self.numerics.dtype)

    def engram_rows(self, layer: int, row_ids: Tensor) -> Tensor:
        """Decoded engram table rows [..., head_dim] in the run's dtype."""
        rows, scales = (self._checkpoint.tensor(f"layers.{layer}.engram.embed.{part}") for part in ("weight", "scale"))
        return decode_engram_rows(_rows(rows, row_ids), _rows(scales, row_ids), self.numerics.dtype)

    def _keep(self, name: str, dtype: torch.dtype, make: Callable[[], Tensor]) -> Tensor:
        key = (name, dtype)
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]


def _rows(stored: Tensor, row_ids: Tensor) -> Tensor:
    """Rows of a matrix of one-byte elements as bytes, since float8 tensors cannot be indexed on every device."""
    return stored.view(torch.uint8)[row_ids]


@dataclass(frozen=True)
class Block:
    """One layer's view of the weights; names are relative to ``prefix``, e.g. ``layers.3.`` or ``mtp.0.``."""

    weights: Weights
    prefix: str
    observe: Observer | None = None

    @property
    def config(self) -> ModelConfig:
        return self.weights.config

    @property
    def numerics(self) -> Numerics:
        return self.weights.numerics

    def report(self, name: str, value: Tensor) -> Tensor:
        """Show ``value`` to the observer as ``prefix + name`` and hand it back."""
        if self.observe is not None:
            self.observe(self.prefix + name, value)
        return value

    def tensor(self, name: str) -> Tensor:
        """An unquantised tensor in float32."""
        return self.weights.tensor(self.prefix + name)

    def norm(self, name: str, x: Tensor) -> Tensor:
        """RMSNorm with the weight ``name.weight``."""
        return rms_norm(x, self.tensor(f"{name}.weight"), self.config.rms_norm_eps)

    def cached(self, x: Tensor, quantiser: Callable[[Tensor], Tensor]) -> Tensor:
        """x as a cache gives it back: through ``quantiser`` if this run simulates cache quantisation."""
        return quantiser(x) if self.numerics.kv_quant else x

    def quantised_linear(self, name: str, x: Tensor) -> Tensor:
        """x [..., in] -> [..., out] through an fp8 or fp4 weight.

        e4m3 values times powers of two are exact in bfloat16, so one GEMM on the decoded operands equals the block
        scaled GEMM of kernel.py up to the order of summation.
        """
        if self.numerics.act_quant:
            x = simulate_act_quant(x, largest=self.numerics.fp8_max)
        return self.plain_linear(name, x)

    def plain_linear(self, name: str, x: Tensor) -> Tensor:
        """x [..., in] -> [..., out] in the run's dtype, input as it is."""
        return F.linear(x, self.weights.decoded(self.prefix + name))

    def float_linear(self, name: str, x: Tensor) -> Tensor:
        """x [..., in] -> float32 [..., out] with operands widened to float32."""
        return F.linear(x.float(), self.tensor(f"{name}.weight"))
