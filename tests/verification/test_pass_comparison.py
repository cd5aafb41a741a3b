import dataclasses

import pytest
import torch
from deepinfer_neuron.compiler.capture.capture import capture
from deepinfer_neuron.compiler.regions.cut import StepInput
from deepinfer_neuron.compiler.regions.cut_graph import cut_graph
from deepinfer_neuron.compiler.regions.root_partition import RootPartition
from deepinfer_neuron.passes import pipeline
from deepinfer_neuron.passes.context import placeholders, results
from deepinfer_neuron.passes.observer import Pass
from deepinfer_neuron.verification import pass_comparison
from deepinfer_neuron.verification.pass_comparison import CUT
from fed_steps import compare_call
from torch import nn

aten = torch.ops.aten


class Formats(nn.Module):
    """A float8 weight, a view of a cache, and a result that is not rounded."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(1)
        self.register_buffer("scale", torch.randn(8, generator=generator).to(torch.float8_e4m3fn))
        self.register_buffer("root", torch.randn(3, 4, 8, generator=generator).bfloat16())

    def forward(self, x, rows):
        self.root[1][rows] = x.bfloat16()
        return self.root[1][rows].float() * self.scale.float() + x


def compared(model, inputs):
    return compare_call(capture(model, inputs), inputs)


def test_every_pass_and_the_cut_keep_every_bit(model, inputs):
    before = model.cache.clone()
    step, comparisons = compared(model, inputs)
    assert [one.name for one in comparisons] == [*(entry.name for entry in pipeline.PASSES), CUT]
    assert [one.changed for one in comparisons if one.name in ("mark_stages", CUT)] == [2, 3]
    assert {one.elements for one in comparisons} == {3 * 64 + model.cache.numel()}
    assert not any(one.mismatched for one in comparisons)
    assert torch.equal(model.cache, before)
    assert len(step.inputs) == len(placeholders(step.module))


def test_carried_inputs_and_views_of_a_cache_are_compared_as_what_they_are():
    model = Formats()
    _, comparisons = compared(model, {"x": torch.randn(2, 8), "rows": torch.tensor([3, 0])})
    changed = {one.name: one.changed for one in comparisons}
    assert changed["carry_float8_as_uint8"] and changed["reslice_kv_views"]
    assert changed["carry_mutated_bfloat16_as_int16"]
    assert not any(one.mismatched for one in comparisons)


def double_a_product(module, context):
    product = module.graph.find_nodes(op="call_function", target=aten.mul.Tensor)[0]
    product.args = (product.args[0], 2.0)
    return 1


def test_a_pass_that_changes_values_is_named(model, inputs, monkeypatch):
    wrong = Pass(double_a_product)
    monkeypatch.setattr(pipeline, "PASSES", (*pipeline.PASSES[:4], wrong, *pipeline.PASSES[4:]))
    _, comparisons = compared(model, inputs)
    first = next(one for one in comparisons if one.mismatched)
    assert first.name == "double_a_product"
    assert all(one.mismatched for one in comparisons[4:-1])
    assert comparisons[-1].mismatched == 0


@pytest.mark.parametrize("position", [0, 1], ids=["result", "cache"])
def test_a_wrong_cut_is_found(model, inputs, monkeypatch, position):
    def cut_wrongly(*arguments, **options):
        cut = cut_graph(*arguments, **options)
        module = cut.regions[1 + (position == 0)].module
        output = results(module)[-1]
        with module.graph.inserting_after(output):
            wrong = module.graph.call_function(aten.neg.default, (output,))
        output.replace_all_uses_with(wrong, lambda user: user is not wrong)
        return dataclasses.replace(cut)

    monkeypatch.setattr("deepinfer_neuron.compiler.steps.decode_steps.cut_graph", cut_wrongly)
    _, comparisons = compared(model, inputs)
    assert [one.name for one in comparisons if one.mismatched] == [pass_comparison.CUT]


def test_regions_that_take_rows_of_a_cache_are_interpreted_with_them(layers, layers_inputs):
    _, comparisons = compared(layers, layers_inputs)
    assert not any(one.mismatched for one in comparisons)
    assert comparisons[-1].elements == 3 * 64 + layers.cache.numel()


def test_rows_of_another_layer_are_found(layers, layers_inputs, monkeypatch):
    applied = RootPartition.applied

    def apply_to_the_first_layer(*arguments):
        cut = applied(*arguments)
        first, second, *rest = cut.regions
        (rows,) = (place for place in first.inputs if isinstance(place, StepInput) and place.rows)
        places = [
            tuple(rows if isinstance(place, StepInput) and place.rows else place for place in group)
            for group in (second.inputs, second.outputs)
        ]
        second = dataclasses.replace(second, inputs=places[0], outputs=places[1])
        return dataclasses.replace(cut, regions=(first, second, *rest))

    monkeypatch.setattr(RootPartition, "applied", apply_to_the_first_layer)
    _, comparisons = compared(layers, layers_inputs)
    assert [one.name for one in comparisons if one.mismatched] == [pass_comparison.CUT]
