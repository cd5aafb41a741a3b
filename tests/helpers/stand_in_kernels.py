"""Kernels that exist for tests only, and what plays their devices: plain torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from deepinfer_neuron.compiler.lowering.device_kernels.kernel import DeviceKernel, NkiSource
from deepinfer_neuron.compiler.lowering.device_kernels.rms_norm import RMS_NORM
from torch import Tensor

MODULE = "stand_in_nki_kernels"


def stand_in_rms_norm(operands: Sequence[Tensor], constants: Mapping[str, Any]) -> list[Tensor]:
    """What AwsNeuronRmsNorm is said to compute, with a division where eager has a product."""
    x, weight, eps = operands
    return [x / torch.sqrt(x.square().mean(-1, keepdim=True) + eps) * weight]


def stand_in_wrong_rms_norm(operands: Sequence[Tensor], constants: Mapping[str, Any]) -> list[Tensor]:
    """It forgets eps and the weight's sign."""
    x, weight, _ = operands
    return [x * torch.rsqrt(x.square().mean(-1, keepdim=True)) * weight.abs()]


def _constants(x: Tensor, weight: Tensor, eps: float) -> Mapping[str, Any]:
    return {"dimension": x.dim() - 1}


def nki_rms_norm(**changes: Any) -> DeviceKernel:
    """A kernel with a source: ``rms_norm`` of the file that ``write_source`` makes."""
    source = NkiSource(MODULE, "rms_norm", ("x", "weight", "eps"), _constants)
    return replace(RMS_NORM, **{"name": "stand-in rms_norm", "code": source, **changes})


SOURCE = """
import nki


def rms_norm(x, weight, eps, dimension=-1):
    return x / (x.square().mean(dimension, keepdim=True) + eps).sqrt() * weight
"""
