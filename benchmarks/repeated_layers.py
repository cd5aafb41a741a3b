"""Models with the layers of a config repeated, for what depends on shapes and kinds of layer but not on values."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import groupby

import torch
from torch import nn

from ..errors import InputError
from ..model.config import ModelConfig
from ..model.decode import DecodeModel
from ..model.kv_cache import CacheGeometry
from ..model.numerics import Numerics


def repeat_layers(config: ModelConfig, layers: int) -> ModelConfig:
    """``config`` with ``layers`` backbone layers of the same kinds.

    Each run of layers of one compress ratio is repeated as a whole, so a layer still finds sources of its ratio before
    it. A model has one candidate source: its copies are layers that use a selection made before.

    Raises:
        InputError: ``layers`` is no multiple of the config's own.
    """
    own, ratios = config.num_hidden_layers, config.compress_ratios
    times, rest = divmod(layers, own)
    if rest or not times:
        raise InputError(f"{layers} layers: expected a multiple of the {own} layers of the config")
    runs = [list(run) for _, run in groupby(range(own), key=lambda layer: ratios[layer])]
    originals = [(layer, copy) for run in runs for copy in range(times) for layer in run]

    def repeated(ids: Collection[int]) -> tuple[int, ...]:
        return tuple(
            index
            for index, (layer, copy) in enumerate(originals)
            if layer in ids and (copy == 0 or layer != config.candidate_source_layer_id)
        )

    engrams = repeated(config.engram_layer_ids)
    tables = dict(zip(config.engram_layer_ids, config.engram_num_embeddings, strict=True))
    longer = replace(
        config,
        num_hidden_layers=layers,
        compress_ratios=tuple(ratios[layer] for layer, _ in originals) + ratios[own:],
        kv_source_layer_ids=repeated(config.kv_source_layer_ids),
        index_source_layer_ids=repeated(config.index_source_layer_ids),
        candidate_source_layer_id=repeated({config.candidate_source_layer_id})[0],
        engram_layer_ids=engrams,
        engram_num_embeddings=tuple(tables[originals[index][0]] for index in engrams),
    )
    longer.validate(f"{layers} layers")
    return longer


def zero_model(config: ModelConfig, geometry: CacheGeometry, numerics: Numerics | None = None) -> DecodeModel:
    """A decode model whose every weight is zero and has memory of its own; pages that nobody writes take none."""
    model = DecodeModel(config, geometry, numerics or Numerics())
    for name, parameter in list(model.named_parameters()):
        owner, _, attribute = name.rpartition(".")
        zeros = nn.Parameter(torch.zeros(parameter.shape, dtype=parameter.dtype), requires_grad=False)
        setattr(model.get_submodule(owner), attribute, zeros)
    return model
