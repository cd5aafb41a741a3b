"""Whole decode steps of the made-up models after the passes, with every weight zero: what a compiler sees of them."""

from __future__ import annotations

from functools import cache

import torch
from deepinfer_neuron.benchmarks.repeated_layers import zero_model
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.steps.pass_captured import pass_captured
from deepinfer_neuron.compiler.steps.pipeline import PassedGraph
from deepinfer_neuron.compiler.targets.table import find_target
from deepinfer_neuron.model.checkpoint.sizes import config_json
from deepinfer_neuron.model.config import ModelConfig
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import target_numerics

BATCH_SIZE = 4
_CONTEXT = 256


@cache
def decode_graph(size: str, target: str = "trn2") -> PassedGraph:
    """The step of a model of that size for four requests; not to be changed."""
    config = ModelConfig.from_dict(config_json(size))
    model = zero_model(config, CacheGeometry.for_requests(_CONTEXT, BATCH_SIZE), target_numerics(target))
    slots = model.decode_slots
    examples = {
        slot.name: torch.full((BATCH_SIZE, *slot.row_shape), slot.pad_value, dtype=slot.dtype) for slot in slots
    }
    return pass_captured(capture(model, examples), find_target(target), slots)
