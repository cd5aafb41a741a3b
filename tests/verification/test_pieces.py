import torch
from deepinfer_neuron.compiler.regions.cut import StepInput, StepValue
from deepinfer_neuron.model.kernels.hyper_connection import hyper_connection_expand
from deepinfer_neuron.verification.pieces import REST, cut_after
from host_programs import trace
from torch import fx

aten = torch.ops.aten


def targets(region):
    return [str(node.target) for node in region.module.graph.nodes if node.op == "call_function"]


def test_pieces_end_in_the_operator_that_they_are_named_after():
    graph = trace(lambda x: (x.neg().exp().sin().exp() + 1,), torch.randn(5))
    cut = cut_after(graph, {}, lambda node: node.target is aten.exp.default)
    assert [targets(piece) for piece in cut.regions] == [
        ["aten.neg.default", "aten.exp.default"],
        ["aten.sin.default", "aten.exp.default"],
        ["aten.add.Tensor"],
    ]
    assert [piece.name.split(" at ")[0] for piece in cut.regions] == ["aten.exp.default", "aten.exp.default", REST]
    assert cut.regions[1].inputs == cut.regions[0].outputs == (StepValue("exp"),)


def test_pieces_in_order_give_the_bits_of_the_whole(step):
    whole = fx.Interpreter(step.module).run(*step.inputs)
    cut = cut_after(step.module, step.aliases, lambda node: node.target is hyper_connection_expand)
    assert len(cut.regions) == 3
    values = {StepInput(index): tensor for index, tensor in enumerate(step.inputs)}
    for piece in cut.regions:
        results = fx.Interpreter(piece.module).run(*(values[place] for place in piece.inputs))
        values.update(zip(piece.outputs, results, strict=True))
    places = [*map(StepValue, cut.results), *map(StepInput, step.aliases.values())]
    actual = [values[place] for place in places]
    assert all(torch.equal(one, other) for one, other in zip(actual, whole, strict=True))


def test_items_of_a_result_stay_with_the_call_that_makes_it():
    graph = trace(lambda x: (torch.sort(x.neg(), stable=True)[0] + 1,), torch.randn(5))
    first, second = cut_after(graph, {}, lambda node: node.target is aten.sort.stable).regions
    assert targets(first)[:2] == ["aten.neg.default", "aten.sort.stable"]
    assert first.outputs == second.inputs == (StepValue("getitem"),)


def test_nothing_is_left_after_a_cut_at_the_end():
    graph = trace(lambda x: (x.neg().exp(),), torch.randn(5))
    (only,) = cut_after(graph, {}, lambda node: node.target is aten.exp.default).regions
    assert only.outputs == (StepValue("exp"),)
