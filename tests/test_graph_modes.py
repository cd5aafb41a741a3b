"""The decode model cut into regions: every bit of the whole program, and no more programs for more layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.canonical import canonical_digest
from deepinfer_neuron.compiler.capture import capture
from deepinfer_neuron.compiler.regions import CutGraph, cut_graph
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.config import ModelConfig
from deepinfer_neuron.model.decode import DecodeModel
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.passes.context import PassContext
from deepinfer_neuron.passes.pipeline import run_passes

GEOMETRY = CacheGeometry.for_requests(max_context=96, max_requests=4, block_tokens=8)

SHORT = {
    "compress_ratios": (0, 0, 2, 2, 1, 1, 1, 1),
    "kv_source_layer_ids": (2, 4),
    "index_source_layer_ids": (2, 4, 6),
    "candidate_source_layer_id": 4,
    "engram_layer_ids": (1, 3),
}
LONG = {
    "compress_ratios": (0, 0, 0, 0, 2, 2, 2, 2, 1, 1, 1, 1, 1, 1, 1, 1),
    "kv_source_layer_ids": (4, 6, 8),
    "index_source_layer_ids": (4, 6, 8, 12, 14),
    "candidate_source_layer_id": 8,
    "engram_layer_ids": (1, 3, 5, 9),
}
"""The kinds of layer of SHORT, each twice or more, and one candidate source as ever."""


def cut(config: ModelConfig, batch: int) -> CutGraph:
    """The regions of a model with zero weights."""
    model = DecodeModel(config, GEOMETRY, Numerics())
    for name, parameter in list(model.named_parameters()):
        owner, _, attribute = name.rpartition(".")
        zeros = torch.zeros(parameter.shape, dtype=parameter.dtype)
        setattr(model.get_submodule(owner), attribute, torch.nn.Parameter(zeros, requires_grad=False))
    examples = {
        spec.name: torch.full((batch, *spec.row_shape), spec.pad_value, dtype=spec.dtype) for spec in model.decode_slots
    }
    graph = capture(model, examples)
    context = PassContext()
    run_passes(graph.module, context)
    return cut_graph(graph.module, context.aliases, context.stage_names)


def with_layers(config: ModelConfig, changes: dict) -> ModelConfig:
    layers = len(changes["compress_ratios"])
    drafts = (0,) * config.num_nextn_predict_layers
    tables = (config.engram_num_embeddings[0],) * len(changes["engram_layer_ids"])
    ratios = changes["compress_ratios"] + drafts
    changed = replace(
        config, **{**changes, "num_hidden_layers": layers, "compress_ratios": ratios, "engram_num_embeddings": tables}
    )
    changed.validate()
    return changed


def test_twice_the_layers_of_the_same_kinds_need_no_more_programs(nano_a):
    config = open_checkpoint(nano_a).config
    short, long = (cut(with_layers(config, changes), batch=2) for changes in (SHORT, LONG))
    names = [region.name for region in short.regions]
    assert names[:4] == ["embed", "layers.0.attention", "layers.0.experts", "layers.1.engram"]
    assert names[-2:] == ["layers.7.experts", "end"]
    assert len(short.regions) == 2 + 2 * 8 + 2
    assert len(long.regions) == 2 + 2 * 16 + 4
    kinds, more_kinds = ({canonical_digest(region) for region in one.regions} for one in (short, long))
    assert len(more_kinds) == len(kinds) <= 10
    experts = {canonical_digest(region) for region in long.regions if region.name.endswith("experts")}
    assert len(experts) == 1


@pytest.mark.parametrize("batch", [2, pytest.param(1, marks=pytest.mark.slow), pytest.param(4, marks=pytest.mark.slow)])
def test_regions_give_every_bit_of_the_whole_program(nano_a, batch):
    checkpoint = open_checkpoint(nano_a)
    pool = RequestPool(load_model(checkpoint, GEOMETRY), EngramLookup(checkpoint, Numerics()))
    requests = [pool.add(list(range(5, 5 + length)))[0] for length in (40, 17, 1, 30)[:batch]]
    inputs = pool.step_inputs(requests, list(range(60, 60 + batch)))
    runners = {mode: compile_decode(pool.model, [batch], mode=mode) for mode in ("whole", "regions")}
    assert runners["regions"].reports[0].programs < runners["regions"].reports[0].regions == 20
    before = pool.model.cache.snapshot()
    logits, caches = {}, {}
    for mode, runner in runners.items():
        pool.model.cache.restore(before)
        logits[mode] = runner(**inputs).clone()
        caches[mode] = pool.model.cache.snapshot()
    assert torch.equal(logits["regions"], logits["whole"])
    for name, root in caches["whole"].items():
        assert torch.equal(caches["regions"][name], root)
        assert not torch.equal(before[name], root)
