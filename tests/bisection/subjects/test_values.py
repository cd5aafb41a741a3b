"""Values that the nodes of a graph have, and what parts of it are fed."""

from __future__ import annotations

import pytest
import torch
from deepinfer_neuron.bisection.accuracy.drawn_values import draw_inputs
from deepinfer_neuron.bisection.simplify.expand import expand_kernels
from deepinfer_neuron.bisection.subjects.graph_subject import GraphSubject
from deepinfer_neuron.bisection.subjects.values import VALUE, inputs_of, record_values, set_inputs, values_digest
from deepinfer_neuron.compiler.lowering.options import LoweringOptions
from deepinfer_neuron.errors import InputError
from deepinfer_neuron.model.kernels.normalization import rms_norm
from deepinfer_neuron.verification.observed import run_observed
from small_graphs import graph_of
from torch import Tensor

OPTIONS = LoweringOptions()


def step(x: Tensor, weight: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    normal = rms_norm(x, weight, 1e-6)
    scores = normal @ normal.t()
    return torch.embedding(scores, rows), scores.sigmoid().t()


def recorded(seed: int = 0):
    module = graph_of(step, [torch.empty(6, 8), torch.empty(8), torch.empty(3, dtype=torch.int32)])
    set_inputs(module, draw_inputs(module, seed))
    record_values(module)
    return module


def test_every_part_is_fed_what_the_whole_program_computes():
    module = recorded()
    subject = GraphSubject(module, {}, OPTIONS)
    values = {node.name: node.meta[VALUE].tensor for node in module.graph.nodes if VALUE in node.meta}
    operations = [index for index, item in enumerate(subject.items) if not item.is_result]
    assert len(operations) > 4
    for index in operations:
        candidate = subject.candidate([index])
        inputs = inputs_of(candidate.graph)
        assert inputs is not None
        results = run_observed(candidate.graph, [one.tensor for one in inputs])
        (name,) = (node.name for node in candidate.graph.graph.nodes if node.op == "call_function")
        assert torch.equal(results[0], values[name])


def test_values_belong_to_a_candidate_and_modules_alone_do_not_tell():
    first, again, other = (GraphSubject(recorded(seed), {}, OPTIONS).candidate([1]) for seed in (0, 0, 1))
    assert first.module == other.module
    assert first.digest == again.digest
    assert first.digest != other.digest
    plain = graph_of(step, [torch.empty(6, 8), torch.empty(8), torch.empty(3, dtype=torch.int32)])
    assert values_digest(plain) == GraphSubject(plain, {}, OPTIONS).candidate([1]).inputs_digest == ""


def test_kernels_that_are_written_out_have_values_inside():
    expanded = expand_kernels(recorded(), OPTIONS)
    record_values(expanded)
    subject = GraphSubject(expanded, {}, OPTIONS)
    for index, item in enumerate(subject.items):
        if not item.is_result:
            assert inputs_of(subject.candidate([index]).graph) is not None


def test_inputs_of_another_type_are_refused():
    module = graph_of(step, [torch.empty(6, 8), torch.empty(8), torch.empty(3, dtype=torch.int32)])
    with pytest.raises(InputError, match=r"is torch.float32\[6, 9\]: expected torch.float32\[6, 8\]"):
        set_inputs(module, [torch.empty(6, 9), torch.empty(8), torch.empty(3, dtype=torch.int32)])
    with pytest.raises(InputError, match="have no values"):
        record_values(module)


def test_drawn_integers_are_small_enough_to_be_indices():
    module = graph_of(lambda x, rows: torch.embedding(x, rows), [torch.empty(2, 8), torch.empty(64, dtype=torch.int32)])
    x, rows = draw_inputs(module)
    assert rows.max() == 1
    assert x.std() > 0.5
    assert torch.equal(draw_inputs(module)[1], rows)
    assert not torch.equal(draw_inputs(module, 1)[1], rows)


def test_drawn_carriers_hold_bits_of_plain_floats():
    module = graph_of(lambda x: torch.ops.aten.view.dtype(x, torch.bfloat16) + 1, [torch.empty(64, dtype=torch.int16)])
    (bits,) = draw_inputs(module)
    assert bits.dtype is torch.int16
    assert 0.5 < bits.view(torch.bfloat16).float().std() < 2


def test_a_graph_that_runs_on_nothing_drawn_is_refused():
    module = graph_of(lambda x, rows: torch.embedding(x, rows), [torch.empty(2, 8), torch.empty(4, dtype=torch.int32)])
    (table,) = (node for node in module.graph.nodes if node.op == "placeholder" and node.meta["val"].dim() == 2)
    table.meta["val"] = torch.empty(0, 8, device="meta")
    with pytest.raises(InputError, match="use --model instead"):
        draw_inputs(module)
