"""Fill a decode model's parameters from a checkpoint."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .checkpoint.loader import Checkpoint
from .decode import DecodeModel
from .kv_cache import CacheGeometry
from .numerics import Numerics

_RENAMED = (
    ("hc_attn.", "hc_attn_"),
    ("hc_ffn.", "hc_ffn_"),
    ("index_keys.", "indexer."),
)
_ROUTED = ".ffn.experts."


def load_model(checkpoint: Checkpoint, geometry: CacheGeometry, numerics: Numerics | None = None) -> DecodeModel:
    """A decode model with every weight decoded to the dtype its parameter declares, one tensor at a time."""
    model = DecodeModel(checkpoint.config, geometry, numerics)
    for name, parameter in list(model.named_parameters()):
        owner, _, attribute = name.rpartition(".")
        value = _read(checkpoint, name, parameter, model.numerics.rescales_weights)
        setattr(model.get_submodule(owner), attribute, nn.Parameter(value, requires_grad=False))
    return model


def _read(checkpoint: Checkpoint, name: str, parameter: nn.Parameter, halved: bool) -> Tensor:
    for ours, stored in _RENAMED:
        name = name.replace(ours, stored)
    if _ROUTED in name:
        return _stack_experts(checkpoint, name, parameter, halved)
    if name in checkpoint.tensors:
        return checkpoint.tensor(name).to(parameter.dtype)
    prefix = name.removesuffix(".weight")
    return checkpoint.decoded(prefix, parameter.dtype, halved).view(parameter.shape)


def _stack_experts(checkpoint: Checkpoint, name: str, parameter: nn.Parameter, halved: bool) -> Tensor:
    layer, _, matrix = name.partition(_ROUTED)
    stacked = torch.empty(parameter.shape, dtype=parameter.dtype)
    for expert in range(parameter.shape[0]):
        stacked[expert] = checkpoint.decoded(f"{layer}{_ROUTED}{expert}.{matrix}", parameter.dtype, halved)
    return stacked
