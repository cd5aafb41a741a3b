import pytest
import torch
from deepinfer_neuron.compiler.levels.observed import run_observed
from deepinfer_neuron.compiler.levels.segments import cut_graph, updated_source
from deepinfer_neuron.errors import GraphError
from deepinfer_neuron.passes.context import output_node, placeholders
from host_programs import trace

aten = torch.ops.aten


def test_segments_in_order_give_the_bits_of_the_whole(step, is_end):
    values = dict(zip(placeholders(step.module), step.inputs, strict=True))
    for segment in cut_graph(step.module, is_end, ["first", "second", "rest"]):
        results = run_observed(segment.module, [values[node] for node in segment.inputs])
        values.update(zip(segment.outputs, results, strict=True))
    whole = run_observed(step.module, step.inputs)
    for node, expected in zip(output_node(step.module).args[0], whole, strict=True):
        assert torch.equal(values[node], expected)


def test_segments_know_the_caches_that_they_update(step, is_end):
    first, second, rest = cut_graph(step.module, is_end, ["first", "second", "rest"])
    for segment in (first, second):
        ((output, source),) = segment.updates.items()
        assert updated_source(segment.outputs[output]) is updated_source(segment.inputs[source])
        assert updated_source(segment.outputs[output]) in step.carried
    assert rest.updates == {}


def test_a_name_is_needed_for_each_segment(step, is_end):
    with pytest.raises(GraphError, match=r"makes 3 segments, there are 2 names: \['first', 'second'\]"):
        cut_graph(step.module, is_end, ["first", "second"])


def test_items_of_a_result_stay_with_the_call_that_makes_it():
    graph = trace(lambda x: torch.sort(x.neg(), stable=True)[0] + 1, torch.randn(5))
    first, second = cut_graph(graph, lambda node: node.target is aten.sort.stable, ["sort", "add"])
    assert [str(node.target) for node in first.module.graph.nodes if node.op == "call_function"][:2] == [
        "aten.neg.default",
        "aten.sort.stable",
    ]
    assert [node.name for node in first.outputs] == ["getitem"]
    assert second.inputs == first.outputs


def test_nothing_is_left_after_a_cut_at_the_end():
    graph = trace(lambda x: x.neg().exp(), torch.randn(5))
    (only,) = cut_graph(graph, lambda node: node.target is aten.exp.default, ["all"])
    assert len(only.outputs) == 1
