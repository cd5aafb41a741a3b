"""Random values for a made-up checkpoint, such that the model behaves like one that was trained.

Weights are of order 1/sqrt(fan in), so activations stay of order 1; nothing that a wrong implementation could ignore
is left at 0 or 1; the rows of the output head differ in length, so one token usually leads the others clearly.
Each tensor has a generator of its own, seeded by (seed, name): the order of making them does not matter.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import log2, sqrt

import numpy
import torch
from torch import Tensor

from .formats import E4M3FN_MAX, encode_e4m3fn
from .layout import TensorSpec

_E4M3_STD = 16.0
"""Standard deviation of stored e4m3 values, far from both the largest value and the subnormals."""
_E2M1_STD = 2.926
"""Root mean square of the sixteen e2m1 codes, all equally likely."""
_UE8M0_BIAS = 127
_HEAD_LENGTH_SPREAD = 0.5
"""Standard deviation of the log length of head rows; at 0.5 the best token leads by about one logit."""


@dataclass(frozen=True)
class Draw:
    """What a recipe may use: one tensor's name and spec, all specs, and the tensor's own generator."""

    name: str
    specs: Mapping[str, TensorSpec]
    generator: numpy.random.Generator

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self.specs[self.name].shape

    def normal(self, std: float, mean: float = 0.0) -> Tensor:
        """fp32 normal values of the tensor's shape."""
        values = self.generator.standard_normal(self.shape, dtype=numpy.float32)
        return torch.from_numpy(values).mul_(std).add_(mean)

    def uniform(self, low: float, high: float) -> Tensor:
        """fp32 uniform values of the tensor's shape."""
        values = self.generator.random(self.shape, dtype=numpy.float32)
        return torch.from_numpy(values).mul_(high - low).add_(low)


Recipe = Callable[[Draw], Tensor]


def random_tensor(name: str, specs: Mapping[str, TensorSpec], seed: int) -> Tensor:
    """The tensor ``name`` of a checkpoint with these specs, with its stored dtype and shape."""
    digest = hashlib.sha256(f"{seed}:{name}".encode()).digest()
    draw = Draw(name, specs, numpy.random.Generator(numpy.random.PCG64(int.from_bytes(digest[:16], "little"))))
    recipe = next(recipe for pattern, recipe in _RECIPES if re.search(pattern, name))
    return recipe(draw).to(specs[name].dtype)


def _stored_weight(draw: Draw) -> Tensor:
    """Values of a linear by its stored dtype: e4m3 codes, packed e2m1 codes, or bf16 of order 1/sqrt(fan in)."""
    dtype = draw.specs[draw.name].dtype
    if dtype == torch.float8_e4m3fn:
        return encode_e4m3fn(draw.normal(_E4M3_STD).clamp_(-E4M3FN_MAX, E4M3FN_MAX)).view(dtype)
    if dtype == torch.int8:
        return torch.from_numpy(draw.generator.integers(-128, 128, draw.shape, dtype=numpy.int8))
    return draw.normal(1 / sqrt(draw.shape[-1]))


def _weight_scale(draw: Draw) -> Tensor:
    weight = draw.specs[draw.name.removesuffix("scale") + "weight"]
    gain = next((gain for pattern, gain in _GAINS if re.search(pattern, draw.name)), 1.0)
    if weight.dtype == torch.int8:
        return _scale_bytes(draw, gain / (sqrt(2 * weight.shape[-1]) * _E2M1_STD))
    return _scale_bytes(draw, gain / (sqrt(weight.shape[-1]) * _E4M3_STD))


def _engram_scale(draw: Draw) -> Tensor:
    return _scale_bytes(draw, 1 / _E4M3_STD)


def _scale_bytes(draw: Draw, around: float) -> Tensor:
    """ue8m0 bytes of powers of two spread over a factor of four or eight around ``around``."""
    exponents = torch.floor(draw.uniform(-0.5, 1.5) + log2(around))
    return (exponents + _UE8M0_BIAS).to(torch.uint8).view(torch.float8_e8m0fnu)


def _head(draw: Draw) -> Tensor:
    """Rows whose length varies log-normally, scaled to give logits of standard deviation 1."""
    lengths = torch.from_numpy(draw.generator.standard_normal((draw.shape[0], 1), dtype=numpy.float32))
    lengths = torch.exp(lengths * _HEAD_LENGTH_SPREAD - _HEAD_LENGTH_SPREAD**2)
    return draw.normal(1 / sqrt(draw.shape[1])).mul_(lengths)


def _standard_normal(draw: Draw) -> Tensor:
    return draw.normal(1.0)


def _near_one(draw: Draw) -> Tensor:
    return draw.normal(0.1, mean=1.0)


def _near_half(draw: Draw) -> Tensor:
    return draw.normal(0.05, mean=0.5)


def _small_offset(draw: Draw) -> Tensor:
    return draw.uniform(-0.3, 0.3)


def _router_bias(draw: Draw) -> Tensor:
    return draw.uniform(-0.2, 0.2)


# Applied to the scales. Each sublayer adds little to the residual streams: at 1 everywhere, one rounding difference
# grows from layer to layer until bf16 and fp32 agree on no more than half of the tokens; at these values on 9 of 10.
_GAINS: tuple[tuple[str, float], ...] = (
    (r"attn\.wo_b\.", 0.25),
    (r"experts\.(\d+\.)?w2\.", 0.1),
    (r"engram\.wkv\.", 0.25),
)

# The first pattern found in the name decides.
_RECIPES: tuple[tuple[str, Recipe], ...] = (
    (r"engram\.embed\.scale$", _engram_scale),
    (r"\.scale$", _weight_scale),
    (r"^head\.weight$", _head),
    (r"^embed\.weight$|markov_head\.embed\.weight$|attn_sink$", _standard_normal),
    (r"norm\.weight$|engram\.[qk]_weight$", _near_one),
    (r"hc_\w+_scale$", _near_half),
    (r"hc_\w+_base$", _small_offset),
    (r"gate\.bias", _router_bias),
    (r"\.weight$|hc_\w+_fn$", _stored_weight),
)
