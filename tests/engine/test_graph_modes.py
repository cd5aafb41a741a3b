"""The decode model cut into regions: every bit of the whole program, and no more programs for more layers."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from deepinfer_neuron.benchmarks.repeated_layers import repeat_layers, zero_model
from deepinfer_neuron.compiler.api import compile_decode
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.regions.canonical import canonical_digest
from deepinfer_neuron.compiler.regions.cut import CutGraph
from deepinfer_neuron.compiler.regions.cut_graph import cut_graph
from deepinfer_neuron.model.checkpoint.loader import open_checkpoint
from deepinfer_neuron.model.config import ModelConfig
from deepinfer_neuron.model.engram_lookup import EngramLookup
from deepinfer_neuron.model.kv_cache import CacheGeometry
from deepinfer_neuron.model.numerics import Numerics
from deepinfer_neuron.model.requests import RequestPool
from deepinfer_neuron.model.weights import load_model
from deepinfer_neuron.passes.context import PassContext
from deepinfer_neuron.passes.pipeline import run_passes

GEOMETRY = CacheGeometry.for_requests(max_context=96, max_requests=4, block_tokens=8)


def cut(config: ModelConfig, batch: int) -> CutGraph:
    """The regions of a model with zero weights."""
    model = zero_model(config, GEOMETRY)
    examples = {
        spec.name: torch.full((batch, *spec.row_shape), spec.pad_value, dtype=spec.dtype) for spec in model.decode_slots
    }
    graph = capture(model, examples)
    context = PassContext()
    run_passes(graph.module, context)
    return cut_graph(graph.module, context.aliases, context.stage_names)


@pytest.mark.slow
def test_twice_the_layers_of_the_same_kinds_need_no_more_programs(nano_a):
    config = open_checkpoint(nano_a).config
    # Two more layers at the end, as the tiny model has, so that every selection is used by a later layer.
    ratios = (*config.compress_ratios[:8], 1, 1, *config.compress_ratios[8:])
    ten = replace(config, num_hidden_layers=10, compress_ratios=ratios)
    short, long = (cut(repeat_layers(ten, layers), batch=2) for layers in (10, 20))
    names = [region.name for region in short.regions]
    assert names[:4] == ["embed", "layers.0.attention", "layers.0.experts", "layers.1.engram"]
    assert names[-2:] == ["layers.9.experts", "end"]
    assert len(short.regions) == 2 + 2 * 10 + 2
    assert len(long.regions) == 2 + 2 * 20 + 4
    kinds, more_kinds = ({canonical_digest(region) for region in one.regions} for one in (short, long))
    assert len(more_kinds) == len(kinds) <= 10
    experts = {canonical_digest(region) for region in long.regions if region.name.endswith("experts")}
    assert len(experts) == 1


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, 2, 4])
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
