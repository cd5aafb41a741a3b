"""How far two results are apart."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from ...errors import InputError

_INTEGER_OF = {torch.bfloat16: torch.int16, torch.float16: torch.int16, torch.float32: torch.int32}


@dataclass(frozen=True)
class LogitError:
    """Distance of logits [n, V] from golden ones; ``rel``, ``one_minus_cos`` and ``kl`` are those of the worst row.

    ``argmax`` is the share of rows with equal argmax, ``kl`` is KL(golden || candidate) in nats, ``max`` the largest
    absolute difference.
    """

    argmax: float
    rel: float
    one_minus_cos: float
    kl: float
    max: float


def logit_error(candidate: Tensor, golden: Tensor) -> LogitError:
    """Compare logits [n, V]; raises InputError if the shapes differ."""
    _same_shape(candidate, golden)
    wide, wide_golden = candidate.double(), golden.double()
    log_candidate, log_golden = wide.log_softmax(-1), wide_golden.log_softmax(-1)
    divergence = (log_golden.exp() * (log_golden - log_candidate)).sum(-1)
    return LogitError(
        argmax=(wide.argmax(-1) == wide_golden.argmax(-1)).double().mean().item(),
        rel=((wide - wide_golden).norm(dim=-1) / wide_golden.norm(dim=-1)).max().item(),
        one_minus_cos=one_minus_cosine(wide, wide_golden).max().item(),
        kl=divergence.clamp_min(0).max().item(),
        max=(wide - wide_golden).abs().max().item(),
    )


def relative_error(candidate: Tensor, golden: Tensor) -> float:
    """||candidate - golden|| / ||golden|| in float64; 0 for two zero tensors."""
    _same_shape(candidate, golden)
    difference, size = (candidate.double() - golden.double()).norm().item(), golden.double().norm().item()
    if difference == 0:
        return 0.0
    return difference / size if size else float("inf")


def one_minus_cosine(candidate: Tensor, golden: Tensor) -> Tensor:
    """1 - cos of the angle between last-axis vectors, float64, exact for small angles (half a squared chord)."""
    chord = F.normalize(candidate.double(), dim=-1) - F.normalize(golden.double(), dim=-1)
    return chord.square().sum(-1) / 2


def ulp_distance(candidate: Tensor, golden: Tensor) -> Tensor:
    """Representable values between two tensors of one float dtype, int64; raises InputError for other dtypes.

    Both zeros are the same value.
    """
    _same_shape(candidate, golden)
    if candidate.dtype != golden.dtype or candidate.dtype not in _INTEGER_OF:
        raise InputError(f"ulps are counted within one float dtype, not between {candidate.dtype} and {golden.dtype}")
    return (_ordered(candidate) - _ordered(golden)).abs()


def _ordered(x: Tensor) -> Tensor:
    """Integers in the order of the float values, consecutive for neighbouring values."""
    integer = _INTEGER_OF[x.dtype]
    bits = x.contiguous().view(integer).long()
    return torch.where(bits < 0, torch.iinfo(integer).min - bits, bits)


def _same_shape(candidate: Tensor, golden: Tensor) -> None:
    if candidate.shape != golden.shape:
        raise InputError(f"shapes differ: {list(candidate.shape)} against {list(golden.shape)}")
